package page_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"teambridge/relay/relaytest/simagent"
)

// The messages of a team can be filtered, and the filter is kept for that team.
func testFilter(t *testing.T, browser context.Context) {
	w, _ := busy(t)
	w.start()
	t.Cleanup(w.end)
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("Everyone")
	p.until(`document.querySelectorAll(".bubble").length > 20`)
	choose := func(filter string) {
		t.Helper()
		p.run(do(fmt.Sprintf(`(f => { f.value = %q; f.dispatchEvent(new Event("change")); })(document.querySelector(".filter"))`, filter)))
	}
	const pairs = `[...document.querySelectorAll(".messages:not(.outbox) .pair")]`
	choose("me")
	p.until(pairs + `.length > 15 && ` + pairs + `.every(e => e.textContent.endsWith("→ you")) && document.querySelectorAll(".notices, .steps").length === 0`)
	p.picture("filter")
	choose("agents")
	p.until(pairs + `.length > 50 && ` + pairs + `.every(e => e.textContent.includes("→") && !e.textContent.includes("you")) && document.querySelectorAll(".notices").length === 0`)
	choose("work")
	const results = `[...document.querySelectorAll(".label")].length > 4 && [...document.querySelectorAll(".messages:not(.outbox) .bubble")].every(b => b.querySelector(".label")?.textContent === "finished" && b.querySelector(".rich strong") !== null)`
	p.until(results)
	p.run(chromedp.Reload())
	p.live()
	p.until(results + ` && document.querySelector(".filter").value === "work"`)

	// If a filter leaves no message, the page says so; a search result is shown even if it is filtered out.
	p.choose("backend")
	p.until(`document.querySelector(".filter") === null && document.querySelector(".notices") !== null`)
	seq := value[string](p, `document.querySelector(".between .bubble").dataset.seq`)
	p.choose("Everyone")
	p.until(results)
	p.run(do(`location.hash += "?at=" + ` + seq))
	p.until(fmt.Sprintf(`document.querySelector(".found-here .bubble")?.dataset.seq === %q && document.querySelector(".filter").value === "all"`, seq))
	p.choose("backend")
	p.choose("Everyone")
	p.until(`document.querySelector(".filter").value === "work"`)
}

// A message can be copied, answered with a quote, and linked to, by mouse and by keyboard.
func testActions(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true}, simagent.Member{Name: "reviewer", Absent: true})
	w := newWorld(t, claude)
	w.join(sim.Name())
	p := open(t, browser, w, w.address())
	p.live()
	p.theme("light") // and without motion
	p.choose("Everyone")
	const text = "**first** line\n\n`second` line"
	w.Send(sim.Name(), "worker", "reviewer", text)
	for n := range 3 {
		w.Send(sim.Name(), "reviewer", "worker", fmt.Sprintf("number %d", n))
	}
	p.until(shown("number 2"))
	p.run(do(`navigator.clipboard.writeText = async (text) => { window.copied = text; }`))
	act := func(words string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".actions button")].find(b => b.textContent === %q)`, words)
	}

	// With the mouse: the buttons are at the message under it, and nothing moves.
	top := `Math.round(` + bubble("number 2") + `.getBoundingClientRect().top)`
	before := value[int](p, top)
	p.run(do(bubble("number 1") + `.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}))`))
	p.until(`document.querySelectorAll(".actions").length === 1 && document.querySelector(".actions").parentElement.contains(` + bubble("number 1") + `)`)
	if now := value[int](p, top); now != before {
		t.Errorf("the buttons move the next message from %d to %d", before, now)
	}
	p.picture("actions")
	p.run(do(act("Copy") + `.click()`))
	p.until(`window.copied === "number 1"`)
	p.run(do(`document.querySelector(".messages").dispatchEvent(new MouseEvent("mouseleave"))`))
	p.until(`document.querySelector(".actions") === null`)

	// By touch: at the message that was tapped.
	p.run(do(bubble("number 0") + `.click()`))
	p.until(`document.querySelector(".actions").parentElement.contains(` + bubble("number 0") + `)`)

	// With the keyboard: one message is reached by Tab, the others by arrows, the buttons by Tab.
	p.until(`document.querySelectorAll(".messages .bubble[tabindex='0']").length === 1`)
	p.run(do(`document.querySelector(".messages .bubble[tabindex='0']").focus()`))
	for range 3 {
		p.run(chromedp.KeyEvent(kb.ArrowUp))
	}
	p.until(`document.activeElement === ` + bubble("first line") + ` && document.querySelectorAll(".messages .bubble[tabindex='0']").length === 1`)
	p.run(chromedp.KeyEvent("\t"))
	p.until(`document.activeElement === ` + act("Copy"))
	p.run(chromedp.KeyEvent("\r"))
	p.until(`window.copied === ` + quote(text))
	p.run(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\t"))
	p.until(`document.activeElement === ` + act("Link"))
	p.run(chromedp.KeyEvent("\r"))
	p.until(`window.copied.startsWith("http")`)
	link := value[string](p, `window.copied`)

	// A reply goes to the author of the message, with the text quoted.
	p.run(do(act("Reply") + `.click()`))
	p.until(`document.querySelector("#talk-title").firstChild.textContent === "worker" && document.activeElement.id === "text" && document.querySelector("#text").value === ` + quote("> **first** line\n>\n> `second` line\n\n"))
	p.run(chromedp.KeyEvent("Yes."), chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.until(bubble("Yes.") + `?.querySelector("blockquote")?.textContent.includes("first line")`)

	if want := "http://" + w.addr + "/#/team/"; !strings.HasPrefix(link, want) {
		t.Errorf("the link is %s", link)
	}
	p.run(do(`location.href = ` + quote(link)))
	p.until(`document.querySelector(".found-here")?.textContent.includes("first line") && document.querySelector("#talk-title").firstChild.textContent === "Everyone"`)
	for _, theme := range []string{"light", "dark"} {
		p.theme(theme)
		for _, low := range value[[]string](p, contrasts) {
			t.Errorf("%s: %s", theme, low)
		}
	}
}

// A reader who writes to a team whose lead is not running is warned before and after.
func testLeadGone(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	// The process in config.json has started at another time.
	path := filepath.Join(sim.Dir(), "config.json")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, regexp.MustCompile(`"procStart": *"\d+"`).ReplaceAll(data, []byte(`"procStart":"1"`)), 0o600)
	}
	must(t, err)
	w := newWorld(t, claude)
	p := open(t, browser, w, w.address())
	p.until(`document.querySelector("#link").dataset.link === "live"`)
	p.run(do(`location.hash = "#/team/` + sim.Name() + `/worker"`))
	p.until(`document.querySelector(".foot > .hint").textContent.includes("The team's lead is not running")`)
	p.write("is anybody there")
	p.until(own("is anybody there") + `?.textContent.includes("⚠ it has no running lead: the message is not read until") && document.querySelectorAll(".outbox li").length === 0`)
	p.picture("lead-gone")
}
