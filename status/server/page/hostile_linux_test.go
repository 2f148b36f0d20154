package page_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/simchild"
	"teambridge/status/server/page"
)

// EnvLargest is the size of further texts of [TestHostile], in bytes, up to 5 MiB: an inbox has at most
// 32 MiB.
const EnvLargest = "TEAMBRIDGE_PAGE_LARGEST"

// Home and the conversations show every text and every question that the service accepts, however
// long or deep, and none hides the others. The log has the time that each takes to paint.
func TestHostile(t *testing.T) {
	a := newAsker(t, launch(t), simchild.Script{}, "worker", "reviewer")
	texts := page.HostileTexts()
	if text := os.Getenv(EnvLargest); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n > 5<<20 {
			t.Fatalf("%s=%s: a number up to %d", EnvLargest, text, 5<<20)
		}
		texts = append(texts, strings.Repeat("word ", n/5), strings.Repeat("a\n", n/2), `{"type":"x","a":[`+strings.Repeat("0,", n/2)+"0]}")
	}
	type row struct {
		From string `json:"from"`
		Text string `json:"text"`
		Time string `json:"timestamp"`
		Read bool   `json:"read"`
	}
	rows := make([]row, 0, len(texts)+1)
	at := time.Now().Add(-time.Hour)
	for n, text := range append(texts, "the last one, in plain words") {
		rows = append(rows, row{From: fmt.Sprintf("sender-%02d", n), Text: text, Time: at.Add(time.Duration(n) * time.Second).UTC().Format(time.RFC3339)})
	}
	data, err := json.Marshal(rows)
	must(t, err)
	must(t, os.WriteFile(a.w.Path(house, "inboxes", "user.json"), data, 0o600))
	a.asks("worker", "Write", map[string]string{"file_path": "/tmp/a.csv", "content": strings.Repeat("x\n", 30_000)})
	a.asks("reviewer", "mcp__weather__Read", map[string]any{"deep": json.RawMessage(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)), "file_path": "/tmp/a"})

	// Home has a row for each, and cards that can be answered.
	a.until(`document.querySelectorAll(".need[data-kind=message]").length === %d`, len(rows))
	a.until(`document.querySelectorAll(".ask [data-act=deny]").length === 2`)
	a.until(`document.body.innerText.includes("the last one, in plain words")`)
	a.until(`document.querySelector(".ask-lines .rest")?.textContent.includes("of 30000 lines are not shown")`)
	if got := value[string](a.tab, `[...document.querySelectorAll(".ask-head")].find(e => e.textContent.includes("reviewer")).textContent`); !strings.Contains(got, "wants to use Read of the MCP server weather mcp__weather__Read") {
		t.Errorf("the card of a server's tool: %q", got)
	}
	a.picture("hostile-home")
	a.run(do(`document.querySelector(".ask-lines").scrollIntoView({block: "center"})`))
	a.picture("hostile-home-lines")
	a.run(do(`document.querySelector(".ask-lines .rest").click()`))
	a.until(`document.querySelectorAll(".diff-line").length > 900 && document.activeElement.matches(".rest")`)

	// Each text in its conversation, as it is shown at first and in full.
	paint := func(step string) float64 {
		t.Helper()
		took, err := chromedp.Run(a.ctx, chromedp.Evaluate[float64](`(async () => {
			const start = performance.now();
			`+step+`
			await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
			return performance.now() - start;
		})()`, chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatalf("%v\n%s", err, a.text())
		}
		return took
	}
	for n, r := range rows {
		opened := paint(fmt.Sprintf(`location.hash = "#/team/%s/%s";
			while (document.querySelector("#talk-title")?.firstChild.textContent !== %q || !document.querySelector(".bubble, .notices")) await new Promise((done) => setTimeout(done));`, house, r.From, r.From))
		unfolded := paint(`document.querySelector(".bubble .raw summary, .notices summary, .bubble .more:not([hidden])")?.click();`)
		t.Logf("%-30q %6d bytes: opened in %4.0f ms, unfolded in %4.0f ms", r.Text[:min(10, len(r.Text))], len(r.Text), opened, unfolded)
		if n == 0 {
			a.picture("hostile-message")
		}
	}
	t.Logf("everyone: opened in %.0f ms", paint(fmt.Sprintf(`location.hash = "#/team/%s";
		while (document.querySelector("#talk-title")?.firstChild.textContent !== "Everyone" || !document.body.innerText.includes("in plain words")) await new Promise((done) => setTimeout(done));`, house)))
	t.Logf("Home: opened in %.0f ms", paint(`location.hash = "#/"; while (!document.querySelector(".needs")) await new Promise((done) => setTimeout(done));`))
}

// Hostile Markdown, and texts that marked parses slowly, run nothing, load nothing, and become only elements of a
// text. The log has the slowest ones.
func TestHostileMarkdown(t *testing.T) {
	claude, _ := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	p := open(t, launch(t), w, w.address())
	p.live()
	texts, err := os.ReadFile("testdata/markdown.json")
	must(t, err)
	shapes, err := os.ReadFile("testdata/shapes.mjs")
	must(t, err)
	most := 4000 // as much is drawn at first
	if os.Getenv(EnvLargest) != "" {
		most = 20_000 // as much is drawn at all
	}
	type result struct {
		Drawn, Plain int
		Bad, Foreign []string
		Slowest      []string
	}
	got, err := chromedp.Run(p.ctx, chromedp.Evaluate[result](fmt.Sprintf(`(async () => {
		const { ready, rendered } = await import("/ui/markdown.js");
		await ready();
		const elements = "p br hr h4 h5 h6 blockquote ul ol li em strong del code pre table thead tbody tr th td a input div span button".split(" ");
		const bad = [], took = [];
		let drawn = 0, plain = 0;
		window.alert = () => bad.push("a text was run");
		document.addEventListener("securitypolicyviolation", (e) => bad.push("refused: " + e.violatedDirective + " " + e.blockedURI));
		const box = document.querySelector("main");
		const texts = %s.flatMap((t) => [t, "|" + t + "|\n|-|\n|" + t + "|", "[" + t + "](https://a.example)", "[a](" + t + ")"]);
		for (const text of [...texts, ...(%s)(%d)]) {
			const start = performance.now();
			const shown = rendered(text);
			const made = performance.now();
			box.replaceChildren(shown);
			shown.offsetHeight;
			took.push([performance.now() - start, made - start, text.length, text.slice(0, 12)]);
			if (shown.matches(".rich")) drawn++; else plain++;
			for (const e of shown.querySelectorAll("*")) {
				const foreign = [...e.attributes].filter(({ name, value }) => name.startsWith("on") || ["style", "src", "srcset", "id", "ping", "download"].includes(name) || name === "href" && !/^(https?|mailto):$/.test(e.protocol));
				if (!elements.includes(e.localName) || foreign.length > 0) bad.push(e.outerHTML.slice(0, 100));
				if (e.localName === "a" && (e.target !== "_blank" || !e.relList.contains("noopener"))) bad.push(e.outerHTML.slice(0, 100));
			}
			await null;
		}
		await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
		took.sort(([a], [b]) => b - a);
		return {
			drawn, plain, bad, foreign: performance.getEntriesByType("resource").map((e) => e.name).filter((name) => !name.startsWith(location.origin + "/ui/") && !name.startsWith(location.origin + "/v1/")),
			slowest: took.slice(0, 5).map(([all, made, size, start]) => Math.round(all) + " ms, of them " + Math.round(made) + " for the elements: " + size + " characters of " + JSON.stringify(start)),
		};
	})()`, texts, strings.TrimSuffix(strings.TrimPrefix(string(shapes), "export default "), ";\n"), most), chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%v\n%s", err, p.text())
	}
	t.Logf("%d texts drawn, %d as they are; the slowest: %s", got.Drawn, got.Plain, strings.Join(got.Slowest, "; "))
	if len(got.Bad) > 0 || len(got.Foreign) > 0 || got.Drawn < 700 || got.Plain < 5 {
		t.Errorf("%d drawn, %d as they are; not allowed: %.10q; loaded: %q", got.Drawn, got.Plain, got.Bad, got.Foreign)
	}
	if value[bool](p, `window.pwned !== undefined`) {
		t.Error("a text was run")
	}
}
