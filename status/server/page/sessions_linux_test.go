package page_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/dialog"
	"teambridge/relay/pane"
	"teambridge/relay/relaytest/simsession"
	"teambridge/status/api"
	"teambridge/status/server"
	"teambridge/teams/transcript"
)

// A reader can write to a session in no team, and each message shows its state: also one that the session's person
// has to allow, and one that waits because the session has ended.
func TestSessions(t *testing.T) {
	browser := launch(t)
	w := newWorld(t, t.TempDir(), func(o *server.Options) { o.KeepTranscripts = []string{pane.SessionTeam} })
	s := simsession.Start(t, w.Root.Path(), "5e55104e-0000-4000-8000-000000000001")
	p := open(t, browser, w, w.address())
	p.live()
	p.choose(simsession.Name)
	p.until(`document.querySelector("nav .team-name").textContent === %s && document.querySelector("#talk-title .in").textContent === %s`, filepath.Base(s.Dir()), " in project "+filepath.Base(s.Dir()))
	p.until(`document.querySelector(".head .doing").textContent.startsWith("Idle")`)
	p.until(`document.querySelector(".head .way").textContent === " · by session: each message once, proven by the session's transcript"`)
	p.until(`!document.querySelector("#policy").hidden && document.querySelector('#policy [value="urgent"]').disabled && document.querySelector("#lead") === null`)

	p.write("Run the tests, please.")
	p.until(own("Run the tests") + `?.textContent === "✓✓✓ done" && ` + shown("done with"))
	s.Tell("busy")
	p.until(`document.querySelector(".head .doing").textContent.startsWith("Working")`)
	p.write("And then the others.")
	p.until(own("And then") + `?.textContent === "✓✓ received"`)
	p.picture("session")
	s.Tell("idle")
	p.until(own("And then") + `?.textContent === "✓✓✓ done"`)
	s.Tell("say All of them pass.")
	p.until(shown("All of them pass."))
	p.run(do(`location.hash = "#/"`))
	s.Tell("say And now?") // its conversation is not open
	p.until(`document.querySelector('main .agent[data-section="needs-you"] .needs')?.textContent.includes("And now?")`)
	p.picture("session-unread")
	p.choose(simsession.Name)
	p.until(shown("And now?"))
	p.run(do(`location.hash = "#/"`))
	p.until(`!document.querySelector("main .needs")?.textContent.includes("And now?")`)
	p.choose(simsession.Name)
	// Its transcript, which has the answers once more, is recorded, too.
	p.until(shown("And then") + ` && [...document.querySelectorAll(".bubble")].filter(b => b.textContent.includes("done with")).length === 2`)

	s.Tell("hold")
	p.write("May I?")
	p.until(own("May I?") + `?.textContent.startsWith("… waiting: held until its person allows it")`)
	p.until(`document.querySelector(".head .doing").textContent.startsWith("Waiting for you · permission prompt")`)
	p.picture("session-held")
	s.Tell("deny")
	p.until(own("May I?") + `?.textContent.includes("not sent: its person did not allow it")`)

	// Its questions at the terminal are answered on the page, also one that is too long for a snapshot.
	for _, what := range []string{"mkdir x", "mkdir " + strings.Repeat("x", 40_000)} {
		s.Tell("ask")
		q := dialog.NewQuestion(agent.Use{Kind: agent.AsksPermission, Tool: "Bash", Input: fmt.Appendf(nil, `{"command":%q}`, what)})
		process, _ := transcript.ProcessWith(w.Root.Path(), s.PID())
		q.PID, q.Start, q.Claude = process.PID, process.ProcStart, w.Root.Path()
		given := make(chan agent.Decision, 1)
		go func() {
			err := dialog.Ask(t.Context(), w.State, q, func() bool { return false }, func(d agent.Decision) error {
				given <- d
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}()
		p.until(`document.querySelector(".conversation .ask [data-act=allow], .ask [data-act=allow]") && document.body.innerText.includes("mkdir x")`)
		p.picture("session-asks")
		p.run(do(`document.querySelector(".ask [data-act=allow]").click()`))
		select {
		case d := <-given:
			if !d.Allow {
				t.Errorf("given %+v", d)
			}
		case <-time.After(patience):
			t.Fatal("the answer is not given")
		}
		s.Tell("answered")
		p.until(`!document.querySelector(".ask [data-act=allow]")`)
		s.Tell("idle")
	}

	s.Kill()
	// Not typed into the page: by then it may know that the session has ended.
	if _, err := w.client().Send(t.Context(), pane.SessionTeam, simsession.Name, "", api.NewMessage{Text: "Are you there?"}); err != nil {
		t.Fatal(err)
	}
	p.until(own("Are you there?") + `?.textContent.includes("the session has ended")`)
	p.run(do(`location.hash = "#/"`))
	p.until(`document.querySelector("main .needs")?.textContent.includes("1 message waits, but the session has ended")`)
	p.until(`document.querySelector("main .needs [data-act=copy]")?.closest(".need").querySelector(".need-do code").textContent.startsWith("claude --resume ")`)
	if wide := value[int](p, `Math.min(...[...document.querySelectorAll("main .need-what")].map(e => e.clientWidth))`); wide < 140 {
		t.Errorf("what waits has %d pixels of the screen's width", wide)
	}
	p.picture("session-home")
	s.Start()
	p.until(`!document.querySelector("main .needs")?.textContent.includes("the session has ended")`)
	if given := s.Given(); len(given) != 3 || given[2] != "Are you there?" {
		t.Errorf("its model was given %q", given)
	}
}
