package page_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/status/server"
	"teambridge/teams"
)

// EnvRecord is "MESSAGES,FILE": TestRealDay lets a headless team get so many messages, and
// writes what the journal has of that to FILE, which is testdata/day.ndjson.gz. Unset, it does not run.
const EnvRecord = "TEAMBRIDGE_PAGE_RECORD"

// dayMembers are the agents of the team; user writes to all of them, and the lead to the others.
var dayMembers = []string{"team-lead", "backend", "frontend", "tester"}

var jobs = []string{
	"Limit the retries of payments", "Keep the cart of a signed-out user", "Add an index for open orders", "Run the suite", "Round each line, not the sum",
	"Describe the query language", "Move to the new build system", "Find out why the nightly build is slow", "Rename the flag, and keep the old one for a release",
}

// TestRealDay records what a real headless team does.
func TestRealDay(t *testing.T) {
	text := os.Getenv(EnvRecord)
	if text == "" {
		t.Skip(EnvRecord + " is not set")
	}
	number, file, _ := strings.Cut(text, ",")
	count, err := strconv.Atoi(number)
	if err != nil || file == "" {
		t.Fatalf("%s=%s", EnvRecord, text)
	}
	version := standin.Newest(t)
	command := standin.Require(t, version)
	home := standin.NewHome(t, standin.StartAPI(t, func(_ context.Context, r standin.Request) standin.Answer {
		at := jobStep.FindAllStringSubmatch(r.Text()+strings.Join(r.Results, ""), -1)
		if len(at) == 0 || r.Side {
			return standin.Answer{Text: "All right."}
		}
		last := at[len(at)-1]
		n, _ := strconv.Atoi(last[1])
		done, _ := strconv.Atoi(last[2])
		return doJob(n, done)
	}))
	w := newWorld(t, home.Root, func(o *server.Options) { o.Env = home.Env() })
	const team = "checkout"
	w.Make(team, time.Now().UnixMilli(), dayMembers...)
	c := w.client()
	for _, m := range dayMembers {
		dir := filepath.Join(home.Work, m)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := c.AddRelay(t.Context(), api.NewRelay{Team: team, Member: m, Command: command, Dir: dir, Permissions: "allow=Bash,Write,Edit,Read"}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range count {
		from, to := "", dayMembers[n%len(dayMembers)]
		if n%3 == 1 && to != "team-lead" {
			from = "team-lead"
		}
		what := jobs[n%len(jobs)]
		if _, err := c.Send(t.Context(), team, to, "", api.NewMessage{From: from, Text: fmt.Sprintf("%s. This is job %d.0.", what, n), Summary: what}); err != nil {
			t.Fatal(err)
		}
		if n%len(dayMembers) == len(dayMembers)-1 { // all are at work at once
			for done := 0; done <= n; <-time.After(50 * time.Millisecond) {
				list, err := c.Deliveries(t.Context(), "", api.DeliveryQuery{Team: team, State: "done"})
				if err != nil {
					t.Fatal(err)
				}
				done = len(list)
			}
		}
	}
	j, err := journal.Open(t.Context(), filepath.Join(w.State, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(out)
	if err := j.Export(t.Context(), packed, journal.Query{Root: w.Root.Path(), Team: team}); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// jobStep is where a job is: its number, and how many calls it has made.
var jobStep = regexp.MustCompile(`(\d+)\.(\d+)`)

// doJob is what a model does for a job after so many calls. Jobs differ, but not by chance.
func doJob(n, done int) standin.Answer {
	h := fnv.New32a()
	fmt.Fprint(h, n)
	kind := h.Sum32()
	var calls []standin.Call
	call := func(tool string, input map[string]string) {
		data, _ := json.Marshal(input)
		calls = append(calls, standin.Call{Name: tool, Input: data})
	}
	next := func() string { return fmt.Sprintf("%d.%d", n, len(calls)+1) }
	call("Bash", map[string]string{"command": "ls; echo looked for " + next(), "description": "look around"})
	if kind%2 == 0 {
		call("Write", map[string]string{"file_path": "notes-" + next() + ".md", "content": "# Notes\n\n- first\n- second\n"})
	}
	if kind%5 == 0 {
		call("Bash", map[string]string{"command": "echo failed " + next() + " >&2; exit 3", "description": "run the suite"})
	}
	if kind%7 == 0 {
		call("Bash", map[string]string{"command": "go test ./... -run Nothing; echo tested " + next()})
	}
	if done >= len(calls) {
		return standin.Answer{Text: fmt.Sprintf("Job %d is done.\n\n- %s\n", n, strings.Repeat("nothing else has changed; ", int(kind%9)))}
	}
	text := ""
	if done == 0 {
		text = "I look at what is there first."
	}
	return standin.Answer{Text: text, Calls: calls[done : done+1]}
}

// EnvDay is "TEAMS,LINES": into how many teams at once TestDayInTheOverview replays the recording, and how many lines
// of it. Unset, it is the beginning, in one team.
const EnvDay = "TEAMBRIDGE_PAGE_DAY"

// dayLine is a line of the recording.
type dayLine struct {
	Inbox, ID    string
	Said, Answer string
	Row          json.RawMessage
	Session      string
	Envelope     json.RawMessage
	Relay        *struct {
		State, Reason, Delivery, From, Session string
		Person                                 bool
		PID                                    int
	}
}

// A replay records for a team what is in the recording, as if it happened now.
type replay struct {
	w       *world
	j       *journal.Journal
	team    teams.Instance
	lines   []dayLine
	next    int
	said    map[string]json.RawMessage // by delivery
	answers map[string]*dayLine        // by the message that is answered
	rows    map[string][]json.RawMessage
	doing   map[string]string // by member: the summary of its last message
	tool    map[string]string // and its last tool call
}

var anyUUID = regexp.MustCompile(`"[0-9a-f]{8}(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")`)

// newReplay reads the recording, with other ids for each team.
func newReplay(t *testing.T, w *world, j *journal.Journal, n int, team teams.Instance) *replay {
	t.Helper()
	f, err := os.Open("testdata/day.ndjson.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	packed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	all = anyUUID.ReplaceAllFunc(all, func(id []byte) []byte {
		if ids[string(id)] == 0 {
			ids[string(id)] = len(ids) + 1
		}
		return fmt.Appendf(nil, `"%02x%06x%s`, n, ids[string(id)], id[9:])
	})
	r := &replay{
		w: w, j: j, team: team, said: map[string]json.RawMessage{}, answers: map[string]*dayLine{},
		rows: map[string][]json.RawMessage{}, doing: map[string]string{}, tool: map[string]string{},
	}
	for d := json.NewDecoder(bytes.NewReader(all)); ; {
		var l dayLine
		if err := d.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		r.lines = append(r.lines, l)
	}
	for i, l := range r.lines {
		if l.Said != "" {
			r.said[l.Said] = l.Row
		}
		var answer struct{ InReplyTo []string }
		if err := json.Unmarshal(l.Row, &answer); l.Answer != "" && err == nil {
			for _, id := range answer.InReplyTo {
				r.answers[id] = &r.lines[i]
			}
		}
	}
	return r
}

// play replays the next lines, and reports whether there are more.
func (r *replay) play(count int) bool {
	t, ctx := r.w.t, r.w.t.Context()
	t.Helper()
	var events []ledger.Event
	var envelopes []journal.Envelope
	written := map[string]bool{}
	for ; count > 0 && r.next < len(r.lines); count-- {
		l := r.lines[r.next]
		r.next++
		now := time.Now().UTC()
		switch {
		case l.Relay != nil:
			e := ledger.Event{
				InboxKey: inbox.Key(r.w.Root.Path(), r.team, l.Inbox), At: now, ID: l.ID, N: int64(r.next),
				Reason: l.Relay.Reason, Delivery: l.Relay.Delivery, From: l.Relay.From, Person: l.Relay.Person, PID: l.Relay.PID, Session: l.Relay.Session,
			}
			if e.Delivery == "" {
				e.Relay = ledger.RelayState(l.Relay.State)
			} else {
				e.State = ledger.DeliveryState(l.Relay.State)
			}
			if e.State == "claimed" {
				e.Row = r.said[e.Delivery]
				row, err := inbox.ParseRow(e.Row)
				if e.Text = row.Text; err != nil && e.Person {
					t.Fatal(err)
				}
			}
			if a := r.answers[e.ID]; e.State == "done" && a != nil {
				e.Row, e.Answer = a.Row, a.Answer
				delete(r.answers, e.ID)
			}
			events = append(events, e)
		case l.Envelope != nil:
			var e struct {
				Role, Turn string
				Ev         struct{ T, Call, Title string }
			}
			if err := json.Unmarshal(l.Envelope, &e); err != nil {
				t.Fatal(err)
			}
			if e.Ev.T == "tool-call-start" {
				r.tool[l.Inbox] = e.Ev.Title
			}
			envelopes = append(envelopes, journal.Envelope{
				InboxKey: inbox.Key(r.w.Root.Path(), r.team, l.Inbox), ID: l.ID, Session: l.Session, At: now,
				Turn: e.Turn, Call: e.Ev.Call, Kind: e.Ev.T, Role: e.Role, Raw: l.Envelope,
			})
		case l.Answer != "": // with its event
		default:
			row := map[string]any{}
			if err := json.Unmarshal(l.Row, &row); err != nil {
				t.Fatal(err)
			}
			if row["type"] == "message" {
				r.doing[l.Inbox] = fmt.Sprint(row["summary"])
			}
			if l.Said != "" {
				continue // with its event
			}
			row["timestamp"], row["read"] = now.Format("2006-01-02T15:04:05.000Z"), l.Inbox != "user"
			data, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			list := append(r.rows[l.Inbox], data)
			r.rows[l.Inbox] = list[max(0, len(list)-20):]
			written[l.Inbox] = true
		}
	}
	if _, err := r.j.RelayEvents.CopyEvents(ctx, nil, events...); err != nil {
		t.Fatal(err)
	}
	if _, err := r.j.Envelopes.Record(ctx, envelopes...); err != nil {
		t.Fatal(err)
	}
	for name := range written {
		data, err := json.Marshal(r.rows[name])
		if err != nil {
			t.Fatal(err)
		}
		path := r.w.Path(r.team.Team, "inboxes", name+".json")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(path+".new", data, 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	return r.next < len(r.lines)
}

// The recorded day passes in the overview, while somebody looks at it and at conversations now and then: each agent is
// shown with what it was told and did last, and the page needs no more memory in the end than it did in the morning.
func TestDayInTheOverview(t *testing.T) {
	many, most := 1, 320
	if text := os.Getenv(EnvDay); text != "" {
		if _, err := fmt.Sscanf(text, "%d,%d", &many, &most); err != nil {
			t.Fatalf("%s=%s: %v", EnvDay, text, err)
		}
	}
	standin.RequireChromium(t)
	claude := filepath.Join(t.TempDir(), "claude")
	clock := addTeam(t, claude, "/home/ada/clock", time.Hour, simagent.Process{}, "hand").Name()
	w := prepare(t, claude)
	j, err := journal.Open(t.Context(), filepath.Join(w.State, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	var list []*replay
	for n := range many {
		name := addTeam(t, claude, fmt.Sprintf("/home/ada/projects/project-%d", n), time.Hour, simagent.Process{}, dayMembers[1:]...).Name()
		c, err := w.Team(name).Config(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := newReplay(t, w, j, n, c.Instance())
		r.lines = r.lines[:min(most, len(r.lines))]
		list = append(list, r)
	}
	pid := startForScale(t, w)
	p := open(t, launch(t), w, w.address())
	// What the page does every half a minute.
	p.run(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.every = []; const real = setInterval;
		window.setInterval = (f, ms) => { if (ms >= 30000) every.push(f); return real(f, ms); }`}), chromedp.Reload())
	p.live()
	p.alone()
	p.run(call(performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainTimeTicks}))
	const batch, looks, hours = 8, 8, 8
	batches := (len(list[0].lines) + batch - 1) / batch
	var heaps []float64
	for n, more := 0, true; more; n++ {
		for _, r := range list {
			more = r.play(batch)
		}
		tick := fmt.Sprintf("tick %d", n)
		w.Send(clock, "team-lead", "hand", tick)
		p.until(`[...document.querySelectorAll(".said")].some(e => e.textContent === %s)`, tick)
		p.run(do(fmt.Sprintf(`for (let n = 0; n < %d; n++) every.forEach(f => f())`, hours*120/batches)))
		if n%max(1, batches/looks) != 0 {
			continue
		}
		back := value[string](p, `location.hash`)
		p.run(do(fmt.Sprintf(`location.hash = "#/team/" + encodeURIComponent(%s) + "/backend"`, quote(list[0].team.Team))))
		p.until(`document.querySelector("#talk-title")?.textContent.includes("backend") && document.querySelector("main .bubble") !== null`)
		p.run(do(fmt.Sprintf(`location.hash = %s`, quote(back))))
		p.until(`document.querySelector(".agents") !== null`)
		p.run(call(heapprofiler.CollectGarbage, cdp.Empty{}))
		metrics := p.metrics()
		heaps = append(heaps, metrics["JSHeapUsedSize"])
		t.Logf("%3d %% of the day: heap %.1f MiB, %.0f nodes, %.0f listeners; service: %s", 100*n/batches, metrics["JSHeapUsedSize"]/(1<<20), metrics["Nodes"], metrics["JSEventListeners"], memoryOf(t, pid, "VmRSS"))
	}
	p.picture("day")
	const row = `[...document.querySelectorAll(".agent")].find(e => e.dataset.key === %s + "\0" + %s)`
	for _, r := range list {
		for member, doing := range r.doing {
			p.until(row+`.querySelector(".said")?.textContent === %s`, r.team.Team, member, doing)
		}
		for member, tool := range r.tool {
			_, what, _ := strings.Cut(tool, " ") // the verb is another one
			p.until(`(e => e.querySelector(".agent-word").textContent.startsWith("Working") ? e.querySelector(".agent-tool")?.textContent.includes(%s) : e.querySelector(".agent-tool") === null)(`+row+`)`,
				strings.ReplaceAll(what, "`", ""), r.team.Team, member)
		}
	}
	// What was made for the first time stays, so the second look is what the last one is held against.
	if first, last := heaps[1], heaps[len(heaps)-1]; last > 1.5*first {
		t.Errorf("the heap has grown from %.1f to %.1f MiB", first/(1<<20), last/(1<<20))
	}
}

// metrics are Chromium's figures of the page, by their names.
func (p *tab) metrics() map[string]float64 {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		p.t.Fatal(err)
	}
	m := map[string]float64{}
	for _, one := range result.Metrics {
		m[one.Name] = one.Value
	}
	return m
}
