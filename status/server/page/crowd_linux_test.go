package page_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/standin"
)

// crowd makes a service for a number of agents in projects of ten. In each, four are stuck for one reason, up to
// stuck in all, and two have written to the reader.
func crowd(t *testing.T, agents, stuck int) *world {
	t.Helper()
	claude := filepath.Join(t.TempDir(), "claude")
	now, err := simagent.CurrentProcess()
	must(t, err)
	members := []string{"backend", "frontend", "database", "tester", "docs", "reviewer", "release", "design", "search"}
	var names []string
	for n := range agents / 10 {
		names = append(names, addTeam(t, claude, fmt.Sprintf("/home/ada/projects/project-%d", n), time.Hour, now, members...).Name())
	}
	w := prepare(t, claude)
	for n, name := range names {
		var rows []said
		for i, m := range members {
			ago := time.Duration(n+1) * time.Minute
			told := said{from: "team-lead", to: m, text: "Look after the " + m, ago: 2 * time.Minute}
			switch {
			case i < 4 && 4*n+i < stuck:
				told.ago = 40*time.Minute + ago
				rows = append(rows, told, said{from: m, to: "team-lead", text: "I have begun.", ago: 30*time.Minute + ago})
			case i == 4 || i == 5:
				rows = append(rows, said{from: m, to: "user", text: fmt.Sprintf("I have done the %s of project %d. Shall I go on?", m, n), ago: ago, unread: true},
					said{from: m, to: "team-lead", text: fmt.Sprintf(`{"type":"idle_notification","from":%q,"idleReason":"available"}`, m), ago: ago - time.Second})
			case i < 8:
				rows = append(rows, told)
			}
		}
		w.record(name, rows...)
	}
	w.start()
	t.Cleanup(w.end)
	return w
}

// inView counts the elements that are wholly in view.
func (p *tab) inView(selector string) int {
	p.t.Helper()
	return value[int](p, fmt.Sprintf(`[...document.querySelectorAll(%q)].filter(e => e.checkVisibility() && (({top, bottom}) => top >= 0 && bottom <= innerHeight)(e.getBoundingClientRect())).length`, selector))
}

// Among many agents, each that needs the reader is one line, and those that wait for the same reason share one, which
// unfolds. One press dismisses all of them, and one marks all messages as read.
func TestCrowd(t *testing.T) {
	agents := 100
	if text := os.Getenv(EnvAgents); text != "" {
		var err error
		if agents, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s=%s: %v", EnvAgents, text, err)
		}
	}
	script, err := os.ReadFile(standin.RequireAxe(t))
	must(t, err)
	browser := launch(t)
	stuck, unread := agents*36/100, agents/5
	w := crowd(t, agents, stuck)
	p := open(t, browser, w, w.address())
	p.size(1440, 900)
	p.live()
	section := func(name string) string {
		return `document.querySelector(".agents-section[data-section=` + name + `]")`
	}
	p.until(section("needs-you")+`.querySelectorAll(".agent .need").length === %d && `+section("stuck")+`.querySelector(".agents-count").textContent === "%d"`, unread, stuck)
	p.until(`document.querySelectorAll(".need-what").values().every(e => e.textContent.includes("Shall I go on?"))`)
	p.picture("crowd")
	if n := p.inView(".agents-section[data-section=needs-you] .agent"); n < 20 {
		t.Errorf("%d rows of what needs the reader are in view, want 20", n)
	}
	if n := p.inView(".agent .need-acts button, .agent .need-what"); n < 20 {
		t.Errorf("%d of what they are about are in view", n)
	}

	fold := section("stuck") + `.querySelector(".agents-alike button")`
	p.until(fold+`.getAttribute("aria-expanded") === "false" && `+section("stuck")+`.querySelectorAll(".agent").length === 0 && `+fold+`.textContent.startsWith("%d ")`, stuck)
	p.run(do(fold+`.focus()`), do(fold+`.click()`))
	p.until(section("stuck")+`.querySelectorAll(".agent").length === %d`, stuck)
	p.focused(`e.matches(".agents-alike button") && e.getAttribute("aria-expanded") === "true"`)
	p.run(do(fold + `.scrollIntoView()`))
	p.picture("crowd-stuck")
	if n := p.inView(".agents-section[data-section=stuck] .agent"); n < 20 {
		t.Errorf("%d rows of what is stuck are in view, want 20", n)
	}
	themes := []string{"light"}
	if os.Getenv(EnvAgents) != "" { // it takes long; TestOverview has both
		themes = append(themes, "dark")
	}
	p.run(do(string(script)))
	for _, width := range []int64{1440, 390} {
		p.size(width, 900)
		p.picture(fmt.Sprintf("crowd-%d", width))
		if over := value[int](p, `document.scrollingElement.scrollWidth - innerWidth`); over > 0 {
			t.Errorf("the page is %d pixels too wide for %d", over, width)
		}
		for _, theme := range themes {
			if width < 1440 && len(themes) == 1 {
				continue
			}
			p.theme(theme)
			for _, fault := range p.axeOf("minor") {
				t.Errorf("%d wide, %s: %s", width, theme, fault)
			}
		}
	}

	// All counters agree, and "All quiet" is not shown as long as something waits or is stuck.
	counted := func(n int) {
		t.Helper()
		number := `(e => Number(e?.firstChild.data ?? 0))`
		p.until(`document.title === %s && `+number+`(document.querySelector(".to-home .badge")) === %d && (document.querySelector(".all-quiet") === null) === %t &&
			[...document.querySelectorAll("nav .team h2 .badge")].reduce((n, e) => n + `+number+`(e), 0) === %d &&
			["needs-you", "stuck"].reduce((n, name) => n + Number(document.querySelector(".agents-section[data-section=" + name + "] .agents-count").textContent), 0) === %d`,
			strings.TrimPrefix(fmt.Sprintf("(%d) teambridge", n), "(0) "), n, n > 0, n, n)
	}
	counted(stuck + unread)
	p.run(do(`[...document.querySelectorAll(".head button")].find(b => b.textContent === "Mark all read").click()`))
	p.until(section("needs-you") + `.hidden && [...document.querySelectorAll(".head button")].find(b => b.textContent === "Mark all read").hidden`)
	counted(stuck)
	p.run(do(section("stuck") + `.querySelector(".agents-alike [data-key=all]").click()`))
	p.until(section("stuck") + `.hidden`)
	counted(0)
}

// If there is no agent yet, the page says how to start one.
func TestNobody(t *testing.T) {
	script, err := os.ReadFile(standin.RequireAxe(t))
	must(t, err)
	w := newWorld(t, t.TempDir())
	p := open(t, launch(t), w, w.address())
	p.until(`document.querySelector("#link").dataset.link === "live" && document.querySelector(".all-quiet") !== null`)
	p.run(do(string(script)))
	for _, width := range []int64{1440, 390} {
		p.size(width, 900)
		p.picture(fmt.Sprintf("nobody-%d", width))
		for _, theme := range []string{"light", "dark"} {
			p.theme(theme)
			for _, fault := range p.axeOf("minor") {
				t.Errorf("%d wide, %s: %s", width, theme, fault)
			}
		}
	}
	text := value[string](p, `document.querySelector("main").innerText`)
	for part, want := range map[string]bool{"Run claude in any terminal": true, "teambridge demo": true, "tmux": false, "pane": false, "team ": false} {
		if strings.Contains(text, part) != want {
			t.Errorf("that the page says %q is %t: %q", part, !want, text)
		}
	}

	// Two blocks of code in a conversation have different names, or are no landmarks.
	w.Make(house, time.Now().UnixMilli(), "team-lead", "worker")
	for range 2 {
		w.Send(house, "worker", "user", "Run it:\n\n```\ngo test ./...\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |")
	}
	p.size(1440, 900)
	p.live()
	p.choose("worker")
	p.until(`document.querySelectorAll(".bubble pre").length === 2`)
	for _, fault := range p.axeOf("minor") {
		t.Errorf("a conversation: %s", fault)
	}
}
