package page_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
)

// Tokens and cost of agents are requested when they are opened.
func TestUsage(t *testing.T) {
	script, err := os.ReadFile(standin.RequireAxe(t))
	must(t, err)
	browser := launch(t)
	w := thirty(t)
	dir := filepath.Join(w.Root.Path(), "projects", "-work")
	must(t, os.MkdirAll(dir, 0o700))
	answer := func(id, more string, input int, at time.Time) string {
		return fmt.Sprintf(`{"type":"assistant",%s"cwd":"/work","timestamp":%q,"message":{"id":%q,"model":"claude-x","usage":{"input_tokens":%d,"output_tokens":7}}}`+"\n", more, at.Format(time.RFC3339), id, input)
	}
	now := time.Now().UTC()
	worker := `"teamName":"shop","agentName":"<b>worker</b>",`
	for name, text := range map[string]string{
		"one.jsonl": answer("m1", worker, 1234567, now) + `{"type":"cost-state","modelUsage":{"claude-x":{"costUSD":1.5}}}` + "\n" + answer("m2", worker, 1, now),
		"two.jsonl": answer("m3", "", 10, now.AddDate(0, 0, -20)),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	w.start()
	t.Cleanup(w.end)
	p := open(t, browser, w, w.address())
	p.live()
	p.until(`document.querySelectorAll(".agent").length === 29`)
	asked := `performance.getEntriesByType("resource").filter(e => e.name.includes("/v1/usage")).length`
	if n := value[float64](p, asked); n != 0 {
		t.Errorf("the service was asked %v times for what nobody wants to see", n)
	}
	table := `[...document.querySelectorAll(".usage tr")].map(r => [...r.cells].map(c => c.textContent).join(" ")).join("; ")`
	p.run(do(`document.querySelector(".usage summary").click()`))
	p.until(table+` === %s`, "Agent Answers Input Cache write Cache read Output Cost; <b>worker</b>@shop 2 1,234,568 0 0 14 $1.50+; Total 2 1,234,568 0 0 14 $1.50+")
	choose := func(label, v string) {
		p.run(do(fmt.Sprintf(`{ const s = document.querySelector('.usage select[aria-label=%q]'); s.value = %q; s.dispatchEvent(new Event("change")); }`, label, v)))
	}
	choose("Since", "30")
	choose("Count by", "model")
	p.until(table+` === %s`, "Model Answers Input Cache write Cache read Output Cost; claude-x 3 1,234,578 0 0 21 $1.50+; Total 3 1,234,578 0 0 21 $1.50+")
	p.picture("usage")
	p.run(do(string(script)))
	for _, width := range []int64{1440, 390} {
		p.size(width, 900)
		for _, theme := range []string{"light", "dark"} {
			p.theme(theme)
			for _, fault := range p.axeOf("minor") {
				t.Errorf("%d wide, %s: %s", width, theme, fault)
			}
		}
		if over := value[bool](p, `document.documentElement.scrollWidth > innerWidth`); over {
			t.Errorf("%d wide: the page is wider than its window", width)
		}
	}
}
