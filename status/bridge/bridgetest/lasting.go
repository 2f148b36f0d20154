package bridgetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"teambridge/relay/relaytest/simagent"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/transcript"
)

// patience limits the wait of a case for an event.
const patience = "3m"

// lasting are the cases of lasting operations: asking, waiting, and following a transcript.
var lasting = map[string]func(*world){
	"asking, and a message is the answer": func(w *world) {
		w.agent("worker", simagent.Reply{Lasts: 600 * time.Millisecond, Messages: []simagent.Message{{To: api.Guest, Text: "by message"}}})
		a, err := w.ask("worker", api.NewMessage{Text: "what is it?"})
		w.must(err)
		if a.Text != "by message" || a.Via != api.ViaMessage || !a.Certain || a.Joined != api.Guest || a.Reply.From != "worker" || a.Reply.Inbox != api.Guest ||
			a.Sent.State != api.Consumed || a.Sent.Member != "worker" || a.Sent.ID != "q-1" || a.Sent.Team != newer {
			w.Errorf("the answer is %+v", a)
		}
	},
	"asking, and the result of the turn is the answer": func(w *world) {
		w.agent("worker", simagent.Reply{Lasts: 600 * time.Millisecond, Text: "the result"})
		_, err := w.b.Join(w.Context(), newer, api.NewJoin{})
		w.must(err)
		a, err := w.ask("worker", api.NewMessage{Text: "what is it?"})
		w.must(err)
		if a.Text != "the result" || a.Via != api.ViaResult || !a.Certain || a.Joined != "" || a.Reply.Kind != "idle_notification" || a.Sent.State != api.Consumed {
			w.Errorf("the answer is %+v", a)
		}
	},
	"asking, and the turn ends without an answer": func(w *world) {
		w.agent("worker", simagent.Reply{Lasts: 600 * time.Millisecond})
		_, err := w.ask("worker", api.NewMessage{Text: "what is it?"})
		w.fails(err, api.CodeNoAnswer)
	},
	"asking in vain": func(w *world) {
		for i := range 2 { // two sends under one id send once
			_, err := w.b.Ask(w.Context(), newer, "worker", "q-1", api.NewQuestion{NewMessage: api.NewMessage{Text: "anybody?"}, Timeout: "50ms"})
			w.fails(err, api.CodeTimeout)
			if err != nil && !strings.Contains(err.Error(), "timed out after 50ms: no answer from worker; the message q-1 stays sent") {
				w.Errorf("the error is %v", err)
			}
			if hint := view.Explain(err).Hint; strings.Contains(hint, `you have joined `+newer+` as operator`) != (i == 0) {
				w.Errorf("the hint is %q", hint)
			}
			w.once("worker", "anybody?")
		}
		ctx, cancel := context.WithCancel(w.Context())
		defer time.AfterFunc(50*time.Millisecond, cancel).Stop()
		if _, err := w.b.Ask(ctx, newer, "worker", "", api.NewQuestion{NewMessage: api.NewMessage{Text: "x"}}); !errors.Is(err, context.Canceled) {
			w.Errorf("the error of somebody who has gone is %v", err)
		}
	},
	"what cannot be asked": func(w *world) {
		for _, tc := range []struct {
			code api.Code
			to   string
			q    api.NewQuestion
		}{
			{api.CodeNotFound, "wroker", api.NewQuestion{NewMessage: api.NewMessage{Text: "x"}}},
			{api.CodeInvalid, "worker", api.NewQuestion{NewMessage: api.NewMessage{Text: " "}}},
			{api.CodeInvalid, "worker", api.NewQuestion{NewMessage: api.NewMessage{Text: "x", DryRun: true}}},
			{api.CodeInvalid, "worker", api.NewQuestion{NewMessage: api.NewMessage{Text: "x", PaneOptions: api.PaneOptions{Policy: api.PolicyUrgent}}}},
			{api.CodeInvalid, "worker", api.NewQuestion{NewMessage: api.NewMessage{Text: "x"}, Timeout: "soon"}},
			{api.CodeInvalid, "worker", api.NewQuestion{NewMessage: api.NewMessage{Text: "x"}, Timeout: "-1s"}},
			{api.CodeRefused, "worker", api.NewQuestion{NewMessage: api.NewMessage{Text: `{"type":"shutdown_request"}`}}},
		} {
			before := w.content("worker")
			_, err := w.b.Ask(w.Context(), newer, tc.to, "", tc.q)
			w.fails(err, tc.code)
			if d, err := w.b.Team(w.Context(), newer); err != nil || d.From != "user" || w.content("worker") != before {
				w.Errorf("%+v: something was written: %+v, %v", tc.q, d, err)
			}
		}
		_, err := w.b.Ask(w.Context(), "nobody", "worker", "", api.NewQuestion{NewMessage: api.NewMessage{Text: "x"}})
		w.fails(err, api.CodeNotFound)
	},
	"a member that has shut down": func(w *world) {
		w.must(os.WriteFile(w.Inbox(newer, "team-lead").Path(), fmt.Appendf(nil, `[{"from":"worker","text":%q,"timestamp":%q,"read":false}]`,
			`{"type":"shutdown_approved","requestId":"r","from":"worker"}`, time.Now().UTC().Format(time.RFC3339Nano)), 0o600))
		h, err := w.wait(api.ForTerminated, "worker")
		w.must(err)
		if len(h.Status) != 1 || h.Status[0].Member != "worker" || h.Status[0].State != api.StateTerminated || h.Message != nil {
			w.Errorf("it is %+v", h)
		}
		_, err = w.ask("worker", api.NewMessage{Text: "are you there?"})
		w.fails(err, api.CodeNotFound)
		_, err = w.wait(api.ForReply, "worker")
		w.fails(err, api.CodeNotFound)
	},
	"waiting for a message": func(w *world) {
		for _, o := range []api.Occasion{{For: api.ForMessage, Member: "worker"}, {For: api.ForReply}} {
			var h api.Happened
			var err error
			w.meanwhile(func() { w.Send(newer, "worker", "user", "here it is") }, func() { h, err = w.wait(o.For, o.Member) })
			w.must(err)
			if h.Message == nil || h.Message.Text != "here it is" || h.Message.Inbox != "user" || h.Message.From != "worker" || h.Status != nil {
				w.Errorf("for %s: %+v", o.For, h)
			}
		}
	},
	"waiting until members are idle": func(w *world) {
		w.agent("worker", simagent.Reply{Lasts: 100 * time.Millisecond, Text: "done"})
		_, err := w.b.Send(w.Context(), newer, "worker", "", api.NewMessage{Text: "a task"})
		w.must(err)
		for _, o := range []api.Occasion{{For: api.ForIdle, Member: "worker"}, {For: api.ForAllIdle}} {
			h, err := w.wait(o.For, o.Member)
			w.must(err)
			if len(h.Status) != 1 || h.Status[0].Member != "worker" || h.Status[0].Word != api.WordIdle || h.Status[0].Unread != 0 {
				w.Errorf("for %s: %+v", o.For, h)
			}
		}
	},
	"waiting in vain": func(w *world) {
		for _, tc := range []struct {
			code api.Code
			o    api.Occasion
		}{
			{api.CodeTimeout, api.Occasion{For: api.ForMessage, Timeout: 50 * time.Millisecond}},
			{api.CodeTimeout, api.Occasion{For: api.ForTerminated, Member: "worker", Timeout: 50 * time.Millisecond}},
			{api.CodeUsage, api.Occasion{For: "lunch"}},
			{api.CodeUsage, api.Occasion{For: api.ForIdle}},
			{api.CodeUsage, api.Occasion{For: api.ForReply, Timeout: -time.Second}},
			{api.CodeNotFound, api.Occasion{For: api.ForIdle, Member: "wroker"}},
		} {
			_, err := w.b.Wait(w.Context(), newer, tc.o)
			w.fails(err, tc.code)
		}
		_, err := w.b.Wait(w.Context(), "nobody", api.Occasion{For: api.ForReply})
		w.fails(err, api.CodeNotFound)
	},
	"transcripts": func(w *world) {
		const id = "2de3961d-6921-4e4d-8adb-18a75361dbe0"
		dir := filepath.Join(w.Root.Path(), "projects", transcript.Slug("/home/dev/project"))
		own := filepath.Join(dir, id, "subagents", "agent-aworker-1")
		w.write(filepath.Join(dir, id+".jsonl"), userRecord("f1", false, "mend <it>"))
		w.write(own+".meta.json", `{"name":"worker","teamName":"`+newer+`"}`)
		w.write(own+".jsonl", userRecord("w1", true, "You are the worker."))
		for _, of := range []struct{ team, who, text string }{
			{newer, "lead", "mend <it>"}, {"", id, "mend <it>"}, {newer, "worker", "You are the worker."},
		} {
			lines, err := w.transcript(w.Context(), of.team, of.who, false, "")
			w.must(err)
			if len(lines) < 2 || !strings.HasPrefix(lines[0], `{"id":"e`) || !strings.Contains(lines[0], `"t":"turn-start"`) || !strings.Contains(lines[1], `"text":"`+of.text+`"`) {
				w.Errorf("that of %s is %q", of.who, lines)
			}
		}
		w.meanwhile(func() { w.write(own+".jsonl", userRecord("w2", true, "and more")) }, func() {
			ctx, cancel := context.WithTimeout(w.Context(), 3*time.Minute)
			defer cancel()
			lines, err := w.transcript(ctx, newer, "worker", true, `"text":"and more"`)
			if err != nil || !strings.Contains(lines[1], "You are the worker.") {
				w.Errorf("followed, it is %q, %v", lines, err)
			}
		})
		ctx, cancel := context.WithTimeout(w.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := w.transcript(ctx, newer, "worker", true, "never"); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("the error of somebody who has gone is %v", err)
		}
		for _, of := range []struct {
			code      api.Code
			team, who string
		}{
			{api.CodeNotFound, newer, "wroker"}, {api.CodeNotFound, older, "worker"}, {api.CodeNotFound, "nobody", "worker"},
			{api.CodeNotFound, "", "2de3961d-0000-0000-0000-000000000000"}, {api.CodeInvalid, "", "worker"},
		} {
			_, err := w.transcript(w.Context(), of.team, of.who, false, "")
			w.fails(err, of.code)
		}
	},
}

// agent runs an agent of the newer team that always gives the same reply.
func (w *world) agent(name string, reply simagent.Reply) {
	w.Helper()
	a, err := simagent.New(simagent.Options{
		Dir: w.Path(newer), Name: name, Poll: time.Millisecond,
		Handle: func(context.Context, simagent.Turn) simagent.Reply { return reply },
	})
	w.must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	w.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.Errorf("the agent: %v", err)
		}
	})
}

func (w *world) ask(member string, m api.NewMessage) (api.Answered, error) {
	return w.b.Ask(w.Context(), newer, member, "q-1", api.NewQuestion{NewMessage: m, Timeout: patience})
}

func (w *world) wait(occasion, member string) (api.Happened, error) {
	return w.b.Wait(w.Context(), newer, api.Occasion{For: occasion, Member: member, Timeout: 3 * time.Minute})
}

// transcript reads a transcript to its end, or to a line that contains until.
func (w *world) transcript(ctx context.Context, team, who string, follow bool, until string) (lines []string, err error) {
	for line, err := range w.b.Transcript(ctx, team, who, api.TranscriptQuery{Follow: follow}) {
		if err != nil {
			return lines, err
		}
		if !json.Valid(line) {
			w.Errorf("%s is no JSON", line)
		}
		if lines = append(lines, string(line)); until != "" && strings.Contains(string(line), until) {
			return lines, nil
		}
	}
	return lines, nil
}

// meanwhile calls again now and then while do waits for the effect, since the start of that wait cannot be observed.
func (w *world) meanwhile(again, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	for {
		select {
		case <-done:
			return
		case <-time.After(50 * time.Millisecond):
			again()
		}
	}
}

// write adds a line to a file.
func (w *world) write(path, line string) {
	w.Helper()
	w.must(os.MkdirAll(filepath.Dir(path), 0o700))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	w.must(err)
	_, err = f.WriteString(line + "\n")
	w.must(errors.Join(err, f.Close()))
}

// userRecord returns the record of a transcript with a message to an agent.
func userRecord(uuid string, teammate bool, text string) string {
	data, err := json.Marshal(map[string]any{
		"type": "user", "uuid": uuid, "isSidechain": teammate, "timestamp": "2026-11-21T15:04:05Z", "version": "2.1.329",
		"message": map[string]string{"role": "user", "content": text},
	})
	if err != nil {
		panic(err)
	}
	return string(data)
}
