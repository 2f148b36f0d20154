package page_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/standin"
)

// The page can be used with the keyboard alone.
func TestKeys(t *testing.T) {
	browser := launch(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, context.Context)
	}{
		{"walk", testWalk},
		{"neighbors", testNeighbors},
		{"axe", testAxe},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, browser)
		})
	}
}

// key presses one key as a keyboard does: a letter is typed only if the page lets it.
func (p *tab) key(key string, modifiers ...chromedp.Modifier) {
	p.t.Helper()
	p.run(chromedp.KeyEvent(key, chromedp.KeyModifiers(modifiers...)))
}

// focused waits until an expression about e, the element with the focus, is true.
func (p *tab) focused(expression string) {
	p.t.Helper()
	p.until(`((e) => ` + expression + `)(document.activeElement)`)
}

// From the first page to a message, an answer, a search and back, without a mouse.
func testWalk(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Handle: answers}, simagent.Member{Name: "reviewer", Absent: true})
	w := newWorld(t, claude)
	w.join(sim.Name())
	w.Send(sim.Name(), "team-lead", "worker", "an older message")
	p := open(t, browser, w, w.address())
	p.live()

	// The first stop skips to the view, and the element with the focus is outlined.
	p.key(kb.Tab)
	p.focused(`e.className === "skip"`)
	tabTo(p, `document.activeElement.matches("a.member") && getComputedStyle(document.activeElement).outlineStyle === "solid"`)

	// Go to the worker by a few letters. The focus stays in the dialog, and Esc closes it.
	p.key("k", chromedp.ModifierCtrl)
	p.focused(`e.getAttribute("role") === "combobox"`)
	for range 4 {
		p.key(kb.Tab)
		p.focused(`e === document.body || e.closest("dialog") !== null`)
	}
	p.key(kb.Escape)
	p.until(`document.querySelector("dialog") === null`)
	p.key("k", chromedp.ModifierCtrl)
	p.focused(`e.value === "" && document.getElementById(e.getAttribute("aria-activedescendant"))?.textContent.includes("Everyone")`)
	p.run(chromedp.KeyEvent("wrk"))
	p.until(`[...document.querySelectorAll(".option .member-name")].map(e => e.textContent).join() === "worker"`)
	p.picture("switcher")
	p.key(kb.Enter)
	p.until(`document.querySelector("dialog") === null && document.querySelector("#talk-title")?.firstChild.textContent === "worker"`)
	p.focused(`e.id === "talk-title"`)

	// Write. A key elsewhere is a letter here.
	p.until(shown("an older message"))
	p.key("c")
	p.focused(`e.id === "text"`)
	p.run(do(`document.activeElement.value = ""`)) // a driven browser types the c as well
	p.run(chromedp.KeyEvent("jack? /"))
	p.until(`document.querySelector("#text").value === "jack? /" && document.querySelector("dialog") === null`)
	p.key(kb.Enter, chromedp.ModifierCtrl)
	p.until(shown("You said: jack? /"))
	p.key(kb.Escape)
	p.focused(`e === document.body`)

	// Through the messages: up from the last one, and down again.
	texts := `[...document.querySelectorAll(".messages > li")].filter(e => e.checkVisibility())`
	for range value[int](p, texts+`.length`) + 1 {
		p.key("k")
	}
	p.focused(`e === ` + texts + `[0] && e.textContent.includes("an older message")`)
	p.key("j")
	p.focused(`e === ` + texts + `[1]`)

	// Search, go to a result, and back.
	p.key("/")
	p.focused(`e.id === "words"`)
	p.run(do(`document.activeElement.value = ""`), chromedp.KeyEvent("older"))
	p.key(kb.Enter)
	p.until(`document.querySelectorAll(".hit").length === 2`) // also in the answer
	p.focused(`e.id === "found-title"`)
	p.key("j")
	p.focused(`e.classList.contains("hit")`)
	p.key(kb.Enter)
	p.focused(`e.classList.contains("found-here") && e.textContent.includes("an older message")`)

	p.key("?")
	p.until(`document.querySelector("dialog.help[open]")?.textContent.includes("Go to a team or member")`)
	p.picture("help")
	p.key("j") // does nothing in a dialog
	p.focused(`e.closest("dialog") !== null`)
	p.key(kb.Escape)
	p.focused(`e.classList.contains("found-here")`)

	p.key("/")
	p.focused(`e.id === "words"`)
	p.run(do(`document.activeElement.value = ""`), chromedp.KeyEvent("nothing like it"))
	p.key(kb.Enter)
	p.until(`document.querySelector(".count")?.textContent.startsWith("No messages match")`)
	p.key(kb.Escape) // back to the conversation with the answer
	p.until(`document.querySelector("#talk-title")?.firstChild.textContent === "team-lead"`)
	p.key(kb.Escape)
	p.until(`location.hash === "#/" && document.activeElement === document.querySelector("main h1")`)

	// A state has a form as well as a color.
	p.until(`document.querySelector(".legend") !== null`)
	forms := value[[]string](p, `[...document.querySelectorAll(".legend .dot")].map(e => getComputedStyle(e)).map(s => [s.borderTopStyle, s.borderTopLeftRadius, s.backgroundImage, s.backgroundColor === s.borderTopColor].join())`)
	if want := len(forms); want != 6 || len(slices.Compact(slices.Sorted(slices.Values(forms)))) != want {
		t.Errorf("two dots have one form, whatever their colour: %q", forms)
	}
}

// Alt and an arrow go through the list of teams, also folded ones; with Shift, only to those
// with unread messages.
func testNeighbors(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true}, simagent.Member{Name: "reviewer", Absent: true})
	w := newWorld(t, claude)
	w.Send(sim.Name(), "worker", "user", "for you")
	p := open(t, browser, w, w.address())
	p.live()
	p.until(`document.querySelector('a.member[href$="/worker"] .badge') !== null`)
	p.run(do(`document.querySelector("nav .team button").click()`)) // fold it
	p.until(`document.querySelectorAll("nav .members").length === 0`)
	// at waits until the view of a path is open. The hash changes before.
	at := func(path string) {
		t.Helper()
		p.until(`(location.hash || "#/") === %s && document.activeElement === document.querySelector("main h1:not(.before)")`, path)
		p.run(do(`document.querySelector("main h1").classList.add("before")`))
	}
	team := "#/team/" + sim.Name()
	p.key(kb.ArrowDown, chromedp.ModifierAlt)
	at(team)
	p.key(kb.ArrowDown, chromedp.ModifierAlt)
	at(team + "/team-lead")
	p.key(kb.ArrowUp, chromedp.ModifierAlt)
	at(team)
	p.key(kb.ArrowUp, chromedp.ModifierAlt)
	at("#/")
	w.Send(sim.Name(), "worker", "user", "for you, too")
	p.until(`document.querySelector('a.member[href$="/worker"] .badge') !== null`)
	p.key(kb.ArrowDown, chromedp.ModifierAlt, chromedp.ModifierShift)
	at(team + "/worker")
	p.key("c")
	p.focused(`e.id === "text"`)
	p.key(kb.ArrowUp, chromedp.ModifierAlt)
	if hash := value[string](p, `location.hash`); hash != team+"/worker" {
		t.Errorf("while the reader writes, a key goes to %s", hash)
	}

	// The dialog lists the last conversations first, and the open one last.
	p.key("k", chromedp.ModifierCtrl)
	p.until(`[...document.querySelectorAll(".option .member-name")].map(e => e.textContent).join() === "Everyone,team-lead,Home,reviewer,worker"`)
}

// axe-core finds no serious fault in any view, light and dark, wide and narrow.
func testAxe(t *testing.T, browser context.Context) {
	script, err := os.ReadFile(standin.RequireAxe(t))
	must(t, err)
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true}, simagent.Member{Name: "reviewer", Absent: true})
	w := newWorld(t, claude)
	w.Send(sim.Name(), "worker", "user", "for you, with **Markdown** and `code`:\n\n```go\nfunc main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] done")
	w.Send(sim.Name(), "user", "worker", "a message that waits")
	w.recorded(sim.Name(), "a message that waits")
	p := open(t, browser, w, w.address())
	p.live()
	p.run(do(string(script)))
	member := "#/team/" + sim.Name() + "/worker"
	for _, view := range []struct{ name, hash, key, ready string }{
		{"home", "#/", "", `document.querySelector("main h1") !== null`},
		{"teams", "#/teams", "", `document.querySelector("main h1") !== null`},
		{"conversation", member, "", shown("a message that waits")},
		{"everyone", "#/team/" + sim.Name(), "", shown("a message that waits")},
		{"search", "#/search?q=message", "", `document.querySelector(".hit") !== null`},
		{"nothing", "#/nothing", "", `document.querySelector(".welcome") !== null`},
		{"switcher", member, "k", `document.querySelector(".switcher .option") !== null`},
		{"help", member, "?", `document.querySelector(".help") !== null`},
	} {
		for _, width := range []int64{1440, 390} {
			p.size(width, 900)
			p.run(do(`document.querySelector("dialog")?.close(); location.hash = "#/"`))
			p.run(do(`location.hash = ` + quote(view.hash)))
			if view.key == "k" {
				p.key(view.key, chromedp.ModifierCtrl)
			} else if view.key != "" {
				p.key(view.key)
			}
			p.until(view.ready)
			for _, theme := range []string{"light", "dark"} {
				p.theme(theme)
				for _, fault := range p.axe() {
					t.Errorf("%s, %d wide, %s: %s", view.name, width, theme, fault)
				}
			}
			p.picture(fmt.Sprintf("axe-%s-%d", view.name, width))
		}
	}
}

// axe returns the serious and critical faults that axe-core finds.
func (p *tab) axe() []string { return p.axeOf("serious", "critical") }

// axeOf returns the faults of these impacts; with minor, all.
func (p *tab) axeOf(impacts ...string) []string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations
		.filter(v => `+quoteAll(impacts)+`.some(i => i === v.impact || i === "minor"))
		.map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html.slice(0, 200) + " " + n.failureSummary).join("; ")))`, chromedp.EvalAwaitPromise))
	must(p.t, err)
	return found
}
