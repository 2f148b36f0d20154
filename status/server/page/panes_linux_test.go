package page_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
)

// A reader can write to an agent in a terminal pane, choose when a message is typed, see the
// state of each message, and learns that its task is done.
func TestPanes(t *testing.T) {
	browser := launch(t)
	tmux := standin.StartTmux(t)
	id := tmux.StartAgent(t)
	w := newWorld(t, t.TempDir())
	if _, err := w.client().AddPane(t.Context(), api.NewPane{Member: "build", Target: id, Socket: tmux.Socket}); err != nil {
		t.Fatal(err)
	}
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("build")
	p.until(`document.querySelector(".head .doing").textContent.startsWith("Idle")`)
	p.until(`!document.querySelector("#policy").hidden && document.querySelector("#policy").value === "queued" && document.querySelector("#lead") === null`)

	// There is a draft in the pane: the message waits, and says so.
	tmux.Keys(t, id, "-l", "half a thought")
	p.until(`document.querySelector(".head .doing").textContent.includes("typed")`)
	p.run(do(`document.querySelector("#notify").click()`))
	p.write("Run the tests, please.")
	p.until(own("Run the tests") + `?.textContent.startsWith("… waiting: ") && ` + own("Run the tests") + `.dataset.state === "waiting"`)
	p.picture("pane-waiting")
	tmux.Keys(t, id, "C-u")
	p.until(own("Run the tests") + `?.textContent === "✓✓ received"`)

	// The agent's hook reports the end of its task.
	l, err := ledger.Open(t.Context(), filepath.Join(w.State, "ledger.db"))
	must(t, err)
	defer l.Close()
	hook := pane.New(pane.Options{Root: w.Root, Ledger: l, State: w.State})
	list, err := hook.Registry.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	must(t, hook.Tasks.Stopped(t.Context(), pane.Stop{Answer: "All **42** tests pass.", Socket: tmux.Socket, Server: list[0].Ref.Server, PaneID: id}))
	p.until(own("Run the tests") + `?.textContent === "✓✓✓ done" && ` + bubble("All 42 tests pass.") + `?.querySelector("strong") !== null`)

	// An interruption is confirmed first.
	tmux.Keys(t, id, "WAIT:never", "Enter")
	p.until(`document.querySelector(".head .doing").textContent.startsWith("Working")`)
	p.run(do(`(s => { s.value = "urgent"; s.dispatchEvent(new Event("change")); })(document.querySelector("#policy"))`))
	p.write("Stop: the branch is wrong.")
	p.until(`document.querySelector("dialog.confirm")?.textContent.includes("build")`)
	p.picture("pane-urgent")
	p.run(do(`document.querySelector("dialog.confirm .quiet").click()`))
	p.until(`document.querySelector("dialog") === null && document.querySelector("#text").value === "Stop: the branch is wrong."`)
	if screen := captured(t, tmux, id); !strings.Contains(screen, "esc to interrupt") {
		t.Errorf("it was interrupted before that was confirmed:\n%s", screen)
	}
	p.run(do(`document.querySelector("#text").focus()`), chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.until(`document.querySelector("dialog.confirm .send") === document.activeElement`)
	p.run(chromedp.KeyEvent("\r"))
	p.until(own("the branch is wrong") + `?.textContent === "✓✓ received" && document.querySelector("#policy").value === "queued"`)
	if screen := captured(t, tmux, id); !strings.Contains(screen, "[Request interrupted by user]") || !strings.Contains(screen, "the branch is wrong") {
		t.Errorf("the pane shows:\n%s", screen)
	}

	// A message that may not have been sent can be sent again, or given up.
	sent := func(id, reason string) string {
		t.Helper()
		to := list[0].InboxKey
		if _, _, err := l.PaneMessages.Add(t.Context(), ledger.PaneMessage{Policy: "when-idle", Delivery: ledger.Delivery{
			UUID: id, InboxKey: to, Person: true, ID: id, From: "user", Raw: []byte("about " + id), At: time.Now(),
		}}, [32]byte{}); err != nil {
			t.Fatal(err)
		}
		must(t, l.Deliveries.End(t.Context(), ledger.Failed, reason, id))
		return "about " + id
	}
	tmux.Keys(t, id, "WAIT:never", "Enter") // so that nothing is typed meanwhile
	p.until(`document.querySelector(".head .doing").textContent.startsWith("Working")`)
	first, second := sent("message-first", ledger.CauseUnknown.Reason("Enter was pressed, and nothing shows what became of it")), sent("message-second", ledger.CauseNotSent.Reason("the pane was in copy mode"))
	p.until(own(first) + `?.textContent.includes("unknown: Enter was pressed") && ` + own(second) + `?.textContent.includes("not sent: the pane was in copy mode")`)
	p.picture("pane-failed")
	p.size(390, 844)
	if over := value[int](p, `document.scrollingElement.scrollWidth - innerWidth`); over > 0 {
		t.Errorf("the page is %d pixels too wide for 390", over)
	}
	p.picture("pane-390")
	p.size(1440, 900)
	p.picture("pane-1440")
	press := func(text, words string) {
		t.Helper()
		p.run(do(fmt.Sprintf(`[...%s.querySelectorAll("button")].find(b => b.textContent === %q).click()`, own(text), words)))
	}
	press(second, "Give up")
	p.until(own(second) + `?.textContent.includes("given up")`)
	press(first, "Send again")
	p.until(own(first) + `?.textContent.startsWith("… waiting")`)
	tmux.Keys(t, id, "Escape")
	p.until(own(first) + `?.textContent === "✓✓ received"`)

	// Home has the items; the end of the task can be dismissed.
	tmux.Keys(t, id, "ASK:Bash", "Enter")
	p.run(do(`location.hash = "#/"`))
	p.until(`document.querySelector("main .agents-list")?.textContent.includes("Waits for you") && document.querySelector("main .agents-list").textContent.includes("Has finished the task of your message")`)
	p.picture("pane-home")
	p.size(390, 844)
	p.picture("pane-home-390")
	p.size(1440, 900)
	p.run(do(`[...document.querySelectorAll(".need")].find(n => n.textContent.includes("Has finished")).querySelector("[data-act=dismiss]").click()`))
	p.until(`!document.querySelector("main .agents-list").textContent.includes("Has finished")`)

	// "Everyone" means all panes.
	p.choose("Everyone")
	p.until(`document.querySelector(".head .doing").textContent.includes("1 terminal pane") && !document.querySelector("#policy").hidden && document.querySelector("#lead").parentElement.hidden`)
	p.picture("pane-everyone")
}

func captured(t *testing.T, tmux *standin.Tmux, pane string) string {
	t.Helper()
	out, err := tmux.Run(t.Context(), nil, "capture-pane", "-p", "-t", pane)
	must(t, err)
	return out
}
