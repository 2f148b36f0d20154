package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/standin"
	"teambridge/relay/wire"
	"teambridge/status/api"
	"teambridge/status/server"
)

// work records the work of an agent as a relay would.
type work struct {
	w       *world
	key     inbox.InboxKey
	session string
	n       int
}

func (w *world) work(team, member string) *work {
	w.t.Helper()
	c, err := w.Team(team).Config(w.t.Context())
	must(w.t, err)
	return &work{w: w, key: inbox.Key(w.Root.Path(), c.Instance(), member), session: "a-session"}
}

// did records events of a turn. e has the other fields of their envelopes.
func (k *work) did(turn string, e wire.Envelope, events ...wire.Event) {
	k.w.t.Helper()
	ctx := k.w.t.Context()
	list := make([]journal.Envelope, len(events))
	for i, event := range events {
		k.n++
		e.ID, e.Role, e.Turn, e.Event = fmt.Sprintf("e%023d", k.n), wire.RoleAgent, &turn, event
		e.Time = float64(time.Now().UnixMilli())
		raw, err := json.Marshal(e)
		must(k.w.t, err)
		list[i] = journal.Envelope{InboxKey: k.key, ID: e.ID, Session: k.session, Turn: turn, Role: "agent", At: time.Now().UTC(), Raw: raw}
		if e.Subagent != nil {
			list[i].Subagent = *e.Subagent
		}
		switch event := event.(type) {
		case *wire.Text:
			list[i].Kind = "text"
		case *wire.ToolCallStart:
			list[i].Kind, list[i].Call = "tool-call-start", event.Call
		case *wire.ToolCallEnd:
			list[i].Kind, list[i].Call = "tool-call-end", event.Call
		case *wire.TurnStart:
			list[i].Kind = "turn-start"
		case *wire.TurnEnd:
			list[i].Kind = "turn-end"
		default:
			k.w.t.Fatalf("a %T", event)
		}
	}
	j, err := journal.Open(ctx, filepath.Join(k.w.State, "journal.db"))
	must(k.w.t, err)
	defer j.Close()
	if _, err := j.Envelopes.Record(ctx, list...); err != nil {
		k.w.t.Fatal(err)
	}
	// The service reads the journal when another event comes.
	k.w.Send(k.key.Team, "team-lead", "nobody", fmt.Sprintf("after %d", k.n))
}

func callOf(id, command string) *wire.ToolCallStart {
	return &wire.ToolCallStart{Call: id, Name: "Bash", Title: "run `" + command + "`", Description: command, Args: wire.Object{"command": []byte(quote(command))}}
}

// line returns an expression for the last line of a step with a text, in any group.
func line(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".step")].filter(e => e.textContent.includes(%s)).at(-1)`, quote(text))
}

// The work of an agent appears while it works, folded, and does not count as
// unread.
func testWork(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true}, simagent.Member{Name: "reviewer", Absent: true})
	w := newWorld(t, claude)
	k := w.work(sim.Name(), "worker")
	p := open(t, browser, w, w.address())
	p.expect("ERR_")
	p.live()
	p.choose("worker")
	k.did("1", wire.Envelope{}, &wire.TurnStart{}, &wire.Text{Text: "I begin with the tests."}, callOf("c1", "go test ./lamp"))
	p.until(shown("I begin with the tests."))
	p.until(line("go test ./lamp") + `?.dataset.running === "true" && document.querySelectorAll(".step").length === 1`)
	p.until(`document.querySelector("#announcements").textContent.includes("worker: I begin with the tests.")`)
	p.picture("work-running")
	p.run(do(`location.hash = "#/"`)) // where it is in the row of the agent
	p.until(rowOf("worker") + `?.querySelector(".agent-tool")?.textContent.includes("go test ./lamp")`)
	p.choose("worker")
	p.until(line("go test ./lamp") + ` !== undefined`)

	// The end of the call changes its line, and makes no other.
	k.did("1", wire.Envelope{}, &wire.ToolCallEnd{Call: "c1", Outcome: wire.OutcomeDone})
	p.until(line("go test ./lamp") + `?.dataset.running === undefined && document.querySelectorAll(".step").length === 1`)
	p.until(line("go test ./lamp") + `.textContent.startsWith("ran go test ./lamp")`)

	// More steps fold, and stay as the reader has them.
	thinking := true
	k.did("1", wire.Envelope{}, &wire.Text{Text: "The lamp is *dim*.\nWhy?", Thinking: &thinking}, callOf("c2", "<img src=x onerror=pwned=1>"), &wire.ToolCallEnd{Call: "c2", Outcome: wire.OutcomeDenied})
	fold := `document.querySelector("details.steps")`
	p.until(fold + `.querySelectorAll(".step").length === 3 && !` + fold + `.open && ` + fold + `.querySelector("summary").textContent.startsWith("3 steps · Bash ×2 · 1 denied")`)
	if got := value[string](p, line("<img")+`.textContent + " " + `+line("<img")+`.dataset.state`); got != "tried to run <img src=x onerror=pwned=1> · denied denied" {
		t.Errorf("a call that was denied is shown as %q", got)
	}
	if value[bool](p, line("go test ./lamp")+`.checkVisibility()`) {
		t.Error("a step of a closed group is visible")
	}
	p.run(do(fold+`.querySelector("summary").focus()`), chromedp.KeyEvent("\r"))
	p.until(fold + `.open`)
	p.run(do(fold + `.querySelector(".thought summary").click()`))
	p.until(fold + `.querySelector(".thought").open && ` + fold + `.querySelector(".thought .rich em").textContent === "dim"`)
	subagent := "tz4a98xxat96iws9zmbrgj3a"
	k.did("1", wire.Envelope{Subagent: &subagent}, &wire.Text{Text: "A subagent's remark."})
	k.did("1", wire.Envelope{}, callOf("c3", "go vet ./lamp "+strings.Repeat("x", 80)))
	p.until(line("go vet ./lamp") + `?.dataset.running === "true" && ` + shown("I begin") + ` && ` + line("A subagent's remark.") + ` !== undefined`)
	if !value[bool](p, fold+`.open && `+fold+`.querySelector(".thought").open && `+fold+`.contains(document.activeElement)`) {
		t.Error("a new step closes what the reader opened")
	}
	p.picture("work-open")
	if n := value[int](p, `document.querySelectorAll("main img, main script").length`); n != 0 || value[bool](p, `window.pwned !== undefined`) {
		t.Error("markup came out of a text")
	}

	// A failed turn says so; its open calls do not run any more.
	k.did("1", wire.Envelope{}, &wire.TurnEnd{Status: wire.TurnFailed})
	p.until(`document.querySelector(".note [data-state=failed]") !== null && document.querySelectorAll("[data-running]").length === 0`)

	p.picture("work-failed")
	for _, theme := range []string{"light", "dark"} {
		p.theme(theme)
		for _, low := range value[[]string](p, contrasts) {
			t.Errorf("%s: %s", theme, low)
		}
	}
	p.size(360, 740)
	if over := value[int](p, `document.scrollingElement.scrollWidth - innerWidth`); over > 0 {
		t.Errorf("the page is %d pixels too wide for 360", over)
	}
	p.size(1280, 800)

	// None of it is unread, or a message below what the reader sees.
	p.size(1280, 420)
	p.run(frames, do(`document.querySelector(".scroll").scrollTop = 0`), frames) // the page learns of each before a frame
	if !value[bool](p, `(() => { const s = document.querySelector(".scroll"); return s.scrollTop === 0 && s.scrollHeight > s.clientHeight + 80; })()`) {
		t.Fatal("the conversation does not scroll")
	}
	k.did("2", wire.Envelope{}, callOf("c9", "make clean"), &wire.Text{Text: "It is clean."})
	p.until(shown("It is clean."))
	if !value[bool](p, `document.querySelector(".jump").textContent === "Jump to latest"`) {
		t.Error("work counts as new messages")
	}
	p.size(1280, 800)
	p.choose("reviewer")
	k.did("2", wire.Envelope{}, &wire.TurnStart{}, &wire.Text{Text: "Nobody looks."}, callOf("c4", "make"))
	w.Send(sim.Name(), "team-lead", "reviewer", "after the work")
	p.until(shown("after the work"))
	// The failure of its turn needs the reader, as soon as a snapshot has it; its texts do not.
	if got := value[string](p, `document.title.replace(/^\(1\) /, "") + [...document.querySelectorAll(".badge:not(.needs)")].map(e => e.textContent)`); got != "reviewer · teambridge" {
		t.Errorf("the work of another is unread: %s", got)
	}
	p.choose("worker")
	p.until(shown("Nobody looks."))

	// The reader can hide the steps, in every page from then on.
	said := value[int](p, `document.querySelectorAll("main .bubble").length`)
	p.run(do(`document.querySelector(".toggle").click()`))
	left := fmt.Sprintf(`document.querySelectorAll(".step").length === 0 && document.querySelectorAll("main .bubble").length === %d`, said)
	p.until(left)
	p.run(chromedp.Reload())
	p.live()
	p.until(left + ` && document.querySelector(".toggle").ariaPressed === "false"`)
	p.run(do(`document.querySelector(".toggle").click()`))
	p.until(line("go vet ./lamp") + ` !== undefined`)

	// A search result is shown anyway, unfolded.
	p.run(do(`document.querySelector(".toggle").click()`))
	p.until(`document.querySelectorAll(".step").length === 0`)
	p.run(chromedp.SendKeys(chromedp.CSS("#words"), "vet lamp"))
	p.until(`document.querySelectorAll(".hit").length === 1 && document.querySelector(".hit .label").textContent === "tool"`)
	p.run(do(`document.querySelector(".hit").click()`))
	p.until(`document.activeElement.matches(".step.found-here") && document.activeElement.textContent.includes("go vet ./lamp") && document.activeElement.checkVisibility()`)
	p.picture("work-found")

	p.choose("Everyone")
	p.until(`document.querySelector(".toggle").ariaPressed === "false" && document.querySelectorAll(".step").length === 0`)
	p.run(do(`document.querySelector(".toggle").click()`))
	p.until(`[...document.querySelectorAll(".steps > summary b")].some(b => b.textContent === "worker")`)
	p.picture("work-everyone")

	// Home shows no tool of an agent whose turn has ended.
	k.did("2", wire.Envelope{}, &wire.TurnEnd{Status: wire.TurnCompleted})
	p.run(do(`location.hash = "#/"`))
	p.until(rowOf("worker") + `?.querySelector(".agent-tool") === null`)
}

// However often the connection breaks, each piece of work is shown once.
func testWorkReconnects(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	k := w.work(sim.Name(), "worker")
	p := open(t, browser, w, w.address())
	p.expect("ERR_")
	p.live()
	p.choose("worker")
	k.did("1", wire.Envelope{}, &wire.TurnStart{}, callOf("c1", "make lamp"))
	p.until(line("make lamp") + `?.dataset.running === "true"`)
	p.run(do(`window.same = true`))

	// Over a restart of the service.
	w.end()
	p.until(`document.querySelector("#link").dataset.link === "reconnecting"`)
	older := journalFiles(t, w)
	w.start()
	k.did("1", wire.Envelope{}, &wire.ToolCallEnd{Call: "c1", Outcome: wire.OutcomeDone}, callOf("c2", "make lens"))
	once := func(n int) {
		t.Helper()
		p.until(`document.querySelectorAll(".step").length === %d && `+line("make lamp")+`.dataset.running === undefined && `+line("make lens")+`.dataset.running === "true" && window.same`, n)
	}
	once(2)

	// And if an older journal replaces the one that the page has seen, it gets a reset.
	// The transcript has all of it, with the same ids.
	w.end()
	p.until(`document.querySelector("#link").dataset.link === "reconnecting"`)
	for name := range journalFiles(t, w) {
		must(t, os.Remove(filepath.Join(w.State, name)))
	}
	for name, data := range older {
		must(t, os.WriteFile(filepath.Join(w.State, name), data, 0o600))
	}
	w.start()
	p.live()
	p.until(`document.querySelectorAll(".step").length === 1`)
	k.n = 1
	k.did("1", wire.Envelope{}, callOf("c1", "make lamp"), &wire.ToolCallEnd{Call: "c1", Outcome: wire.OutcomeDone}, callOf("c2", "make lens"))
	once(2)
}

// journalFiles returns the files of the journal, which is closed.
func journalFiles(t *testing.T, w *world) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range []string{"journal.db", "journal.db-wal", "journal.db-shm"} {
		data, err := os.ReadFile(filepath.Join(w.State, name))
		if err == nil {
			files[name] = data
		} else if !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if len(files) == 0 {
		t.Fatal("there is no journal")
	}
	return files
}

// The texts and steps of a real headless agent, which a relay of the service runs, are shown as
// they happen.
func testRealWork(t *testing.T, browser context.Context) {
	version := standin.Newest(t)
	command := standin.Require(t, version)
	call := func(tool string, input map[string]any) standin.Call {
		data, err := json.Marshal(input)
		must(t, err)
		return standin.Call{Name: tool, Input: data}
	}
	bash := func(command string) standin.Call { return call("Bash", map[string]any{"command": command}) }
	var work string
	// Each answer but the first follows from the results of the one before.
	home := standin.NewHome(t, standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
		has := func(mark string) bool {
			return strings.Contains(r.Text(), mark) || strings.Contains(strings.Join(r.Results, "\n"), mark)
		}
		switch {
		case r.Side:
			return standin.Script(ctx, r)
		case has("tested-5"):
			return standin.Answer{Text: "Done: the beam has 400 W, and its test passes."}
		case has("fine-4"):
			return standin.Answer{Calls: []standin.Call{bash("while [ ! -e go ]; do sleep 0.05; done; echo tested-$((4+1))")}}
		case has("looked-3"):
			return standin.Answer{Text: "The beam is fine-4."}
		case has("review-the-beam"):
			return standin.Answer{Calls: []standin.Call{bash("echo looked-$((2+1))")}}
		case has("beam-2"):
			return standin.Answer{Text: "It has 200 W. A subagent looks at what I have written.", Calls: []standin.Call{
				call("Agent", map[string]any{"description": "look at the beam", "prompt": "review-the-beam", "subagent_type": "general-purpose", "run_in_background": false}),
			}}
		case has("brighter"):
			return standin.Answer{Text: "I look at the lamp first.", Calls: []standin.Call{
				call("Write", map[string]any{"file_path": filepath.Join(work, "beam.txt"), "content": "400 W\n"}), bash("echo beam-$((1+1))"),
			}}
		}
		return standin.Script(ctx, r)
	}))
	work = home.Work
	w := newWorld(t, home.Root, func(o *server.Options) { o.Env = home.Env() })
	const team = "lighthouse"
	w.Make(team, time.Now().UnixMilli(), "team-lead", "worker")
	p := open(t, browser, w, w.address())
	p.live()
	if _, err := w.client().AddRelay(t.Context(), api.NewRelay{
		Team: team, Member: "lead", Command: command, Dir: work, Permissions: "allow=Bash,Write,Agent,Task",
	}); err != nil {
		t.Fatal(err)
	}
	p.choose("team-lead")
	p.write("Please make the beam brighter.")
	p.until(shown("I look at the lamp first.") + ` && ` + line("while [ ! -e go ]") + `?.dataset.running === "true"`)
	p.until(shown("It has 200 W.") + ` && ` + line("echo beam-") + `?.dataset.running === undefined && ` + line("beam.txt") + ` !== undefined`)
	p.run(do(`document.querySelectorAll("details.steps").forEach(d => d.open = true)`))
	if !value[bool](p, line("echo looked-")+`.parentElement.closest(".step") !== null`) {
		t.Error("the work of the subagent is not below the call that started it")
	}
	p.picture("real-work-running")
	must(t, os.WriteFile(filepath.Join(work, "go"), nil, 0o600))
	answer := bubble("Done: the beam has 400 W")
	p.until(answer + `?.querySelector(".label")?.textContent === "answer" && document.querySelectorAll("[data-running]").length === 0`)
	if n := value[int](p, `[...document.querySelectorAll(".bubble")].filter(b => b.textContent.includes("Done: the beam")).length`); n != 1 {
		t.Errorf("the answer is shown %d times", n)
	}
	if value[bool](p, `/^\(/.test(document.title) || document.querySelector(".badge") !== null`) {
		t.Error("the work is unread")
	}
	live := value[string](p, shownTexts)
	p.picture("real-work")
	p.size(390, 844)
	p.picture("real-work-narrow")
	p.size(1920, 1080)
	p.picture("real-work-wide")
	p.size(1280, 800)
	p.run(chromedp.Reload()) // the records are the same as the live events
	p.live()
	p.until(answer + ` !== undefined`)
	if again := value[string](p, shownTexts); again != live {
		t.Errorf("after a reload it shows\n%s\nbefore:\n%s", again, live)
	}
}

// shownTexts is an expression for the texts of a conversation, without their times.
const shownTexts = `[...document.querySelectorAll(".messages:not(.outbox) :is(.bubble .text, .line)")].map(e => e.textContent).join("\n")`
