package page_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"teambridge/inbox/simagent"
)

// A person writes to an agent, sees the message arrive, be taken and be answered,
// sees the agent end, and finds what was said.
func TestConversation(t *testing.T) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Handle: answers}, simagent.Member{Name: "reviewer", Handle: answers})
	w := newWorld(t, claude)
	w.join(sim.Name())
	p := open(t, launch(t), w, w.address())
	p.live()
	if at := value[string](p, `location.href`); at != "http://"+w.addr+"/" {
		t.Errorf("the address is %s", at)
	}
	p.picture("start")
	p.choose("worker")
	p.write("Please review the lighthouse plan.")
	p.until(bubble("Please review") + `?.querySelector(".fate[data-state=consumed] .tick")?.textContent === "✓✓"`)
	p.until(bubble("You said: Please review") + ` !== undefined`)
	p.picture("talk")
	p.size(360, 740)
	p.picture("talk-narrow")
	p.run(chromedp.Click(chromedp.CSS(".back")))
	p.until(`getComputedStyle(document.querySelector("main")).display === "none"`)
	p.picture("people-narrow")
}
