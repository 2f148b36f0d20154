package page_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/chromedp"
)

// A browser fetches less than 100 KiB at first, and other parts when they are opened. A part that cannot
// be loaded says so.
func TestPartsAreLoadedWhenTheyAreOpened(t *testing.T) {
	browser := launch(t)
	w := thirty(t)
	w.start()
	t.Cleanup(w.end)
	p := open(t, browser, w, w.address())
	p.live()
	p.until(`document.querySelectorAll(".agent").length === 29`)
	const files = `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].filter(e => e.entryType === "navigation" || e.name.includes("/ui/"))`
	size, names := value[float64](p, files+`.reduce((n, e) => n + e.encodedBodySize, 0)`), value[string](p, files+`.map(e => e.name.split("/").at(-1)).join(" ")`)
	t.Logf("%v bytes of %d files", size, len(strings.Fields(names)))
	if size < 50<<10 || size > 100<<10 {
		t.Errorf("the browser has fetched %v bytes: %s", size, names)
	}
	for _, name := range []string{"search.js", "usage.js", "ask.js", "switcher.js"} {
		if strings.Contains(names, name) {
			t.Errorf("%s was fetched before anybody opened it", name)
		}
	}

	// The service is gone. Once it is back, the failed part is loaded.
	p.expect("search")
	p.block("http://*:*/ui/search.*")
	p.run(do(`location.hash = "#/search?q=retries"`))
	p.until(`document.querySelector(".missing")?.checkVisibility() && document.querySelector("h1").textContent === "Search"`)
	p.picture("missing")
	p.block()
	p.run(do(`location.hash = "#/"`))
	p.until(`document.querySelector("h1").textContent === "Overview"`)
	p.run(do(`location.hash = "#/search?q=retries"`))
	p.until(`document.querySelectorAll(".hit").length > 0`)

	// It was replaced: the file is from another version.
	p.run(do(`location.hash = "#/"`))
	p.until(`document.querySelector(".usage") !== null`)
	answer := p.intercept("*/ui/usage.js", fetch.RequestStageRequest)
	p.run(do(`document.querySelector(".usage summary").click()`))
	answer(func(id fetch.RequestID) step {
		return call(fetch.FulfillRequest, fetch.FulfillRequestParams{
			RequestID: id, ResponseCode: 200, ResponseHeaders: []*fetch.HeaderEntry{{Name: "Content-Type", Value: "text/javascript"}},
			Body: []byte(`import { ofAnotherVersion } from "./dom.js";`),
		})
	})
	p.until(`document.querySelector(".usage .missing button")?.textContent === "Reload the page"`)
	p.run(chromedp.Reload())
	p.live()
	p.until(`document.querySelector(".usage .missing") === null && document.querySelectorAll(".agent").length === 29`)
	p.run(do(`document.querySelector(".usage summary").click()`))
	p.until(`document.querySelector(".usage select") !== null`)

	// The dialog to go to a team or member is such a part, too.
	p.run(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.until(`document.querySelector("dialog.switcher input") === document.activeElement`)
}
