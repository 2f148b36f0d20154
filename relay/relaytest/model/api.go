package model

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxBody bounds one call. A conversation of a few thousand messages stays under a tenth of it.
const maxBody = 256 << 20

// API is a stand-in for the model API on 127.0.0.1, for any number of agents at once. It answers POST /v1/messages, as
// Claude Code calls it, and, with ServeOthers, POST /v1/chat/completions, as OpenCode does, POST /v1/responses, as Codex does, and POST /v1beta/models/, as
// Gemini CLI does, by its Responder, POST /v1/messages/count_tokens with 10, HEAD with 200 and all else with 404, and records every
// call of the first four kinds. Safe for concurrent use.
type API struct {
	// URL is the value for ANTHROPIC_BASE_URL; with /v1 behind it, the baseURL of OpenCode's provider.
	URL string
	// Alone says that one agent, Main, makes all calls of a session: otherwise a session that is a member of a
	// team in one process and not in the next would count as two. It is set before the first call.
	Alone bool

	respond  Responder
	closed   context.Context
	closeAll context.CancelFunc
	mux      *http.ServeMux
	server   *http.Server

	mu            sync.Mutex
	log           []*Request
	changed       chan struct{}                // closed and replaced when the log changes
	conversations map[string]map[string]int    // texts of the last call's history, with how often each is there
	systems       map[string]string            // one copy of every system text: they are long and always the same
	names         map[string]map[string]string // session -> a teammate's first prompt -> its name
	sessions      map[string]string            // session of a teammate that is a process of its own -> its name
}

// Start starts an API that answers POST /v1/messages by the responder, or by [Script] if that is nil. It ends with [API.Close].
func Start(respond Responder) (*API, error) {
	if respond == nil {
		respond = Script
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	closed, closeAll := context.WithCancel(context.Background())
	a := &API{
		URL:     "http://" + listener.Addr().String(),
		respond: respond, closed: closed, closeAll: closeAll, mux: http.NewServeMux(),
		changed:       make(chan struct{}),
		conversations: map[string]map[string]int{},
		systems:       map[string]string{},
		names:         map[string]map[string]string{},
		sessions:      map[string]string{},
	}
	a.mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) { a.call(w, r, parse, write) })
	a.mux.HandleFunc("POST /v1/messages/count_tokens", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // an unread body would end the kept-alive connection
		_ = writeJSON(w, http.StatusOK, object{"input_tokens": 10})
	})
	a.mux.HandleFunc("HEAD /", func(http.ResponseWriter, *http.Request) {})
	a.mux.HandleFunc("/", http.NotFound) // otherwise every path that HEAD may request would answer 405
	a.server = &http.Server{Handler: a.mux}
	go func() { _ = a.server.Serve(listener) }()
	return a, nil
}

// ServeOthers answers the programs that are not Claude Code, too.
func (a *API) ServeOthers() {
	a.mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { a.call(w, r, parseChat, writeChat) })
	a.mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) { a.call(w, r, parseResponses, writeResponses) })
	a.mux.HandleFunc("POST /v1beta/models/{call}", a.callGemini)
}

// Close ends delays and waiting responders, and all connections.
func (a *API) Close() {
	a.closeAll()
	_ = a.server.Close()
}

// Knows tells the API that the calls of a session come from a teammate that is a process of its own.
func (a *API) Knows(session, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[session] = name
}

// call answers a call of one of the APIs, which parse reads and write answers.
func (a *API) call(
	w http.ResponseWriter, hr *http.Request,
	parse func([]byte, http.Header) (r Request, history []string, old int, err error),
	write func(http.ResponseWriter, Request, Answer, int) error,
) {
	data, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	parsed, history, old, err := parse(data, hr.Header)
	if err != nil {
		_ = write(w, parsed, Answer{Status: http.StatusBadRequest, Text: err.Error()}, 0)
		return
	}
	r, entry := a.record(parsed, history, old)

	ctx, cancel := context.WithCancel(hr.Context())
	defer cancel()
	defer context.AfterFunc(a.closed, cancel)()
	answer := a.respond(ctx, r)
	if Sleep(ctx, answer.Delay) != nil {
		return
	}
	a.learn(r.Session, answer.Calls)
	// Only the client's connection can fail here: then the call rightly stays unanswered in the log.
	if err := write(w, r, answer, r.Seq); err == nil {
		a.answered(entry)
	}
}

// record puts a call into the log with what is new in its conversation. It returns a copy for the responder and the
// log's own entry.
func (a *API) record(r Request, history []string, old int) (Request, *Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.Seq, r.Time = len(a.log)+1, time.Now().UTC()
	if system, ok := a.systems[r.System]; ok {
		r.System = system
	} else {
		a.systems[r.System] = r.System
	}
	if a.Alone {
		r.Agent = Main
	} else if name, ok := a.sessions[r.Session]; ok {
		r.Agent = name
	} else if r.Agent == Teammate && len(history) > 0 {
		if first := deliveries(history[0]); len(first) > 0 {
			if name, ok := a.names[r.Session][first[0].Body]; ok {
				r.Agent = name
			}
		}
	}
	if !r.Side {
		key := r.Session + "\n" + r.Agent
		if r.unnamed && len(history) > 0 {
			key += "\n" + history[0]
		}
		before, known := a.conversations[key]
		if !known {
			// Resumed, or compacted into a conversation of its own: what precedes the last answer was counted
			// where it was new, or in another process that this API did not serve.
			before = tally(history[:old])
		}
		now := tally(history)
		if r.added = minus(now, before); len(r.added) > 0 {
			r.removed = minus(before, now)
		}
		a.conversations[key] = now
	}
	entry := &r
	a.log = append(a.log, entry)
	a.announce()
	return *entry, entry
}

// tally counts equal texts, minus lists what one tally has more often than another, as often as it has it more.
func tally(texts []string) map[string]int {
	n := make(map[string]int, len(texts))
	for _, text := range texts {
		n[text]++
	}
	return n
}

func minus(a, b map[string]int) []string {
	var more []string
	for text, n := range a {
		for range n - b[text] {
			more = append(more, text)
		}
	}
	return more
}

// learn keeps the names of teammates that are being spawned, by the prompt with which their conversation will begin.
func (a *API) learn(session string, calls []Call) {
	for _, c := range calls {
		var input struct{ Name, Prompt string }
		if c.Name != "Agent" || json.Unmarshal(c.Input, &input) != nil || input.Name == "" {
			continue
		}
		a.mu.Lock()
		if a.names[session] == nil {
			a.names[session] = map[string]string{}
		}
		a.names[session][strings.TrimSpace(input.Prompt)] = input.Name
		a.mu.Unlock()
	}
}

func (a *API) answered(entry *Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	entry.Answered = time.Now().UTC()
	a.announce()
}

func (a *API) announce() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// Log returns all calls so far, side calls included, in the order they arrived.
func (a *API) Log() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]Request, len(a.log))
	for i, r := range a.log {
		all[i] = *r
	}
	return all
}

// Wait returns the first call, of those so far and to come, for which match is true. It asks again about calls it has
// seen when they are answered, so match may look at Answered. Use Seq to wait for a call later than a known one. An
// error wraps ctx's and lists the last calls.
func (a *API) Wait(ctx context.Context, match func(Request) bool) (found Request, err error) {
	if err := a.until(ctx, func() bool {
		log := a.Log()
		i := slices.IndexFunc(log, match)
		if i >= 0 {
			found = log[i]
		}
		return i >= 0
	}); err != nil {
		return Request{}, fmt.Errorf("model: the API was never called as expected: %w; %s", err, a)
	}
	return found, nil
}

// WaitCount returns as soon as Count(agent, marker) is at least n.
func (a *API) WaitCount(ctx context.Context, agent, marker string, n int) error {
	got := 0
	if err := a.until(ctx, func() bool { got = a.Count(agent, marker); return got >= n }); err != nil {
		return fmt.Errorf("model: %s was given %q %d times, want %d: %w; %s", agent, marker, got, n, err, a)
	}
	return nil
}

// until checks a condition after each change of the log, until it holds.
func (a *API) until(ctx context.Context, so func() bool) error {
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if so() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Count is how often the marker was given to an agent (or Any): 0 is lost, 2 is twice.
//
// Every call repeats the conversation, and may be repeated itself, so calls are not what is counted. A call adds as
// many as its history holds the marker more often than the conversation's previous one did; an interrupted turn, a
// retry, a resumed session and a reordered history add nothing, a second delivery of the same text adds one, also after
// a compaction. Only texts in the user's role count (Request.Texts): no tool results, no answers, no side calls. The
// first call of a conversation that began elsewhere adds what came after its last answer.
//
// A marker counts in any position, so m-1 is also found in m-10: end it, or use Counts. What one agent was given may
// reach another in that one's answer, so name the agent.
func (a *API) Count(agent, marker string) int {
	return a.Counts(agent, regexp.MustCompile(regexp.QuoteMeta(marker)))[marker]
}

// Turns is how often the agent's model answered, whole, a call whose newest texts hold the marker. Where Count tells
// whether a message is in the conversation once, this tells whether the work it asks for was begun twice, as when a
// process is killed in mid-turn and given its message again: Count stays 1, Turns becomes 2 if the first answer had
// been written. A call that was repeated after its answer got lost on the way counts twice, too.
func (a *API) Turns(agent, marker string) int {
	n := 0
	for _, r := range a.Log() {
		if !r.Side && !r.Answered.IsZero() && (agent == Any || r.Agent == agent) && r.Has(marker) {
			n++
		}
	}
	return n
}

// Counts is Count for every string that the expression matches, such as `\bm-[0-9]+\b`. One that was never given is not
// in the map.
func (a *API) Counts(agent string, marker *regexp.Regexp) map[string]int {
	counts := map[string]int{}
	for _, r := range a.Log() {
		if agent != Any && r.Agent != agent {
			continue
		}
		here := map[string]int{}
		for by, texts := range map[int][]string{1: r.added, -1: r.removed} {
			for _, text := range texts {
				for _, m := range marker.FindAllString(text, -1) {
					here[m] += by
				}
			}
		}
		for m, n := range here {
			if n > 0 {
				counts[m] += n
			}
		}
	}
	return counts
}

// String describes the last calls, for failure messages.
func (a *API) String() string {
	log := a.Log()
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls", len(log))
	for _, r := range log[max(0, len(log)-5):] {
		text := r.Text()
		if text == "" && len(r.Results) > 0 {
			text = "result: " + r.Results[0]
		}
		fmt.Fprintf(&b, "\n  #%d %s %s side=%t answered=%t: %.200q", r.Seq, r.Time.Format("15:04:05.000"), r.Agent, r.Side, !r.Answered.IsZero(), text)
	}
	return b.String()
}

// Sleep waits for that time, or until ctx ends, whose error it returns.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
