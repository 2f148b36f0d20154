package page_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/server/page"
)

// The view of changed files lists an agent's files and the changes in each.
func TestChanges(t *testing.T) {
	script, err := os.ReadFile(standin.RequireAxe(t))
	must(t, err)
	browser := launch(t)
	w := thirty(t)
	w.start()
	t.Cleanup(w.end)
	teams, err := w.client().Teams(t.Context())
	must(t, err)
	checkout := teamAt(teams, "checkout")
	config, err := w.Team(checkout).Config(t.Context())
	must(t, err)
	type patch = map[string]any
	var lines []byte
	add := func(file string, at time.Time, result patch) {
		t.Helper()
		result["filePath"] = file
		line, err := jsonOf(patch{"type": "user", "uuid": fmt.Sprint(len(lines)), "timestamp": at.UTC().Format(time.RFC3339), "toolUseResult": result})
		must(t, err)
		lines = append(append(lines, line...), '\n')
	}
	hunk := func(changed ...string) patch {
		return patch{"structuredPatch": []patch{{"oldStart": 7, "oldLines": 2, "newStart": 7, "newLines": 2, "lines": changed}}}
	}
	now := time.Now()
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 1, 0, now.Location())
	add("/home/ada/projects/checkout/old.go", today.AddDate(0, 0, -3), hunk("-a", "+b"))
	add("/home/ada/projects/checkout/retry.go", today, hunk(" func retry() {", "-\tfor {", "+\tfor range 3 {", "+\t\t// at most"))
	add("/home/ada/projects/checkout/new.go", today.Add(time.Second), patch{"type": "create", "content": "package checkout\n", "structuredPatch": []patch{}})
	dir := filepath.Join(w.Root.Path(), "projects", "-home-ada-projects-checkout")
	write := func() {
		t.Helper()
		must(t, os.MkdirAll(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, config.LeadSessionID+".jsonl"), lines, 0o600))
	}
	write()

	p := open(t, browser, w, w.address())
	p.live()
	p.until(`document.querySelectorAll(".agent-files").length === 24`) // not for the five on another machine
	row := fmt.Sprintf(`[...document.querySelectorAll(".agent")].find(e => e.dataset.key === %s)`, quote(checkout+"\x00team-lead"))
	p.run(do(row + `.querySelector(".agent-files").click()`))
	const files = `[...document.querySelectorAll(".change")].map(c => c.querySelector("code").textContent.split("/").at(-1) + " " + c.querySelector(".change-counts").textContent + (c.querySelector(".change-new") ? " new" : "")).join("; ")`
	p.until(files+` === %s`, "new.go +1 −0 new; retry.go +2 −1")
	p.until(`document.querySelector(".head .doing").textContent.startsWith("2 files +3 −1 lines")`)
	diff := `[...document.querySelectorAll("[open] .diff-hunk, [open] .diff-line")].map(l => l.textContent).join("\n")`
	p.run(do(`document.querySelectorAll(".change summary")[1].click()`))
	p.until(diff+` === %s`, "@@ -7,2 +7,2 @@\n func retry() {\n-removed: \tfor {\n+added: \tfor range 3 {\n+added: \t\t// at most")
	p.looks("changes", string(script))

	// The span can be chosen, and is in the URL.
	p.run(do(`{ const s = document.querySelector('[aria-label=Since]'); s.value = "7"; s.dispatchEvent(new Event("change")); }`))
	p.until(files+` === %s`, "new.go +1 −0 new; retry.go +2 −1; old.go +1 −1")
	p.run(chromedp.Reload())
	p.live()
	p.until(files+` === %s`, "new.go +1 −0 new; retry.go +2 −1; old.go +1 −1")
	// From the conversation. For an agent without records, it says so.
	p.run(do(`location.hash = ` + quote("#/team/"+checkout+"/backend")))
	p.until(`[...document.querySelectorAll(".head-links a")].some(a => a.textContent === "Changed files")`)
	p.expect("changes")
	p.run(do(`[...document.querySelectorAll(".head-links a")].find(a => a.textContent === "Changed files").click()`))
	p.until(`document.querySelector("h1")?.textContent.startsWith("Changed files") && document.querySelector(".empty").textContent.includes("transcript")`)

	// Any name and any text is shown as text, and in parts if it is long.
	texts := page.HostileTexts()
	texts = append(texts, strings.Repeat("x", 60_000), strings.Repeat("a\n", 30_000), "\x00\x01\xff\xfe binary", "</code><img src=x onerror=alert(1)>\u202egpj.exe")
	for n, text := range texts {
		add("/shop/"+fmt.Sprint(n)+"-"+text[:min(len(text), 300)], today.Add(time.Minute), patch{"type": "create", "content": text, "structuredPatch": []patch{}})
	}
	add("/shop/"+strings.Repeat("long", 30_000), today.Add(time.Minute), patch{"type": "create", "content": "x", "structuredPatch": []patch{}})
	write()
	p.run(do(`location.hash = ` + quote("#/changes/"+checkout+"/team-lead?days=1")))
	p.until(`document.querySelectorAll(".change").length > 20`)
	p.run(do(`for (const s of document.querySelectorAll(".change summary")) s.click()`))
	p.until(`[...document.querySelectorAll(".change")].every(c => c.querySelector(".change-body :is(figure, .warn)") || c.querySelector(".change-body p:not([role])"))`)
	if faults := value[[]string](p, `[...document.querySelectorAll(".change :is(script, img, iframe, a, b, i)")].map(e => e.outerHTML)`); len(faults) > 0 {
		t.Errorf("there is markup: %s", faults)
	}
	if got := value[[]string](p, `[...document.querySelectorAll(".change .warn")].map(e => e.parentElement.parentElement.textContent.slice(0, 300))`); len(got) > 0 {
		t.Errorf("not drawn: %q", got)
	}
	if raw := value[bool](p, `/[\u202a-\u202e\u2066-\u2069\u0000-\u0008]/.test(document.querySelector(".changed").textContent)`); raw {
		t.Error("there are characters that reorder text")
	}
	if over := value[bool](p, `document.documentElement.scrollWidth > innerWidth`); over {
		t.Error("the page is wider than its window")
	}
}
