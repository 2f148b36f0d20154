package page_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/client"
)

// EnvScale is "TEAMS,MESSAGES": how large TestScale makes its world, with 10 members and so
// many messages in each team. Unset, it is small.
const EnvScale = "TEAMBRIDGE_PAGE_SCALE"

// envServe is set for a process of this test that is the service: the Claude directory.
const envServe = "PAGE_TEST_SERVE"

const scaleMembers = 10

// TestScale measures the page and the service with many teams. The figures are in its log.
func TestScale(t *testing.T) {
	if claude := os.Getenv(envServe); claude != "" {
		serveForScale(t, claude)
		return
	}
	count, messages := 3, 150
	if text := os.Getenv(EnvScale); text != "" {
		if _, err := fmt.Sscanf(text, "%d,%d", &count, &messages); err != nil {
			t.Fatalf("%s=%s: %v", EnvScale, text, err)
		}
	}
	standin.RequireChromium(t)
	began := time.Now()
	figure := func(what string, value any) { t.Logf("%-52s %v", what, value) }
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

	claude := filepath.Join(t.TempDir(), "claude")
	names := manyTeams(t, claude, count)
	w := prepare(t, claude)
	fillTeams(t, w, names, messages)
	figure(fmt.Sprintf("%d teams × %d members × %d messages, made in", count, scaleMembers, messages), time.Since(began).Round(time.Millisecond))

	began = time.Now()
	pid := startForScale(t, w)
	figure("service ready", ms(time.Since(began)))
	c := w.client()
	measure := func(what string, n int, do func() error) {
		t.Helper()
		took := make([]time.Duration, n)
		for i := range took {
			began := time.Now()
			if err := do(); err != nil {
				t.Fatal(err)
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		figure(what, fmt.Sprintf("%s, slowest %s", ms(took[n/2]), ms(took[n-1])))
	}
	attention := func() error {
		_, err := c.Attention(t.Context(), "")
		return err
	}
	measure("GET /v1/attention, the first", 1, attention)
	measure("GET /v1/attention", 20, attention)
	measure("snapshot of a new stream", 10, func() error {
		for e, err := range c.Stream(t.Context(), "", "") {
			if err != nil {
				return err
			}
			if e.Snapshot != nil {
				if n := len(e.Snapshot.Teams); n != count {
					return fmt.Errorf("%d teams in the snapshot, want %d", n, count)
				}
				return nil
			}
		}
		return io.ErrUnexpectedEOF
	})
	measure("100 messages of a conversation, with HTML", 20, func() error {
		_, err := c.Messages(t.Context(), names[0], client.MessageQuery{With: busyMembers[1], Limit: 100})
		return err
	})
	measure("search for a word that is everywhere", 5, func() error {
		_, err := c.History(t.Context(), client.SearchQuery{Words: "the", Limit: 50})
		return err
	})

	p := open(t, launch(t), w, w.address())
	p.live()
	p.run(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		new MutationObserver((_, o) => { if (document.querySelector("nav .team")) { o.disconnect(); requestAnimationFrame(() => setTimeout(() => performance.mark("teams"))); } })
			.observe(document, {childList: true, subtree: true})`}), chromedp.Reload())
	p.live()
	p.until(`performance.getEntriesByName("teams").length > 0`)
	figure("page: first contentful paint", fmt.Sprintf("%.0f ms", value[float64](p, `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0`)))
	figure("page: list of teams", fmt.Sprintf("%.0f ms", value[float64](p, `performance.getEntriesByName("teams")[0].startTime`)))
	p.until(`document.querySelectorAll("nav .team").length === %d`, count)
	p.picture("scale")
	// To a conversation that is not open yet, until its messages are painted.
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	took, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](`(async () => {
		const took = [];
		const teams = `+quoteAll(names)+`, members = `+quoteAll(busyMembers[:scaleMembers-1])+`;
		for (let n = 0; n < 30; n++) {
			const team = teams[n * 7 % teams.length], member = members[n * 5 % members.length];
			const start = performance.now();
			location.hash = "#/team/" + encodeURIComponent(team) + "/" + member;
			await new Promise((done) => {
				const ready = () => {
					const title = document.querySelector("#talk-title"), bubble = document.querySelector(".bubble");
					return location.hash.includes(team) && title?.firstChild?.textContent === member && title.closest(".talk").contains(bubble);
				};
				const look = () => (ready() ? requestAnimationFrame(() => setTimeout(done)) : setTimeout(look));
				look();
			});
			took.push(performance.now() - start);
		}
		return took.sort((a, b) => a - b);
	})()`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	figure("page: switch of conversation", fmt.Sprintf("%.0f ms, slowest %.0f ms", took[len(took)/2], took[len(took)-1]))
	p.picture("scale-talk")

	// What a message costs that has nothing to do with what is shown.
	before := value[float64](p, tasks)
	for i := range 50 {
		w.Send(names[count-1], busyMembers[0], busyMembers[1], fmt.Sprintf("live %d", i))
	}
	w.Send(names[count-1], busyMembers[0], "user", "the last one")
	p.until(`document.querySelector("#announcements").textContent.includes("the last one")`)
	figure("page: 50 messages elsewhere, script and layout", fmt.Sprintf("%.0f ms", value[float64](p, tasks)-before))

	p.run(call(heapprofiler.CollectGarbage, cdp.Empty{}))
	heap, err := chromedp.Call(ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	figure("page: JavaScript heap", fmt.Sprintf("%.1f MiB", heap.UsedSize/(1<<20)))
	for _, field := range []string{"VmRSS", "VmHWM", "RssAnon"} {
		figure("service: "+field, memoryOf(t, pid, field))
	}
}

// tasks is the time that the page has spent in long tasks so far.
const tasks = `(globalThis.spent ??= (() => { const o = {sum: 0}; new PerformanceObserver((l) => { for (const e of l.getEntries()) o.sum += e.duration; }).observe({type: "longtask"}); return o; })()).sum`

func quoteAll(list []string) string {
	data, _ := json.Marshal(list)
	return string(data)
}

// memoryOf returns a line of /proc/<pid>/status.
func memoryOf(t *testing.T, pid int, field string) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), field+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// manyTeams makes teams with so many members each, and returns their names.
func manyTeams(t *testing.T, claude string, count int) (names []string) {
	t.Helper()
	for i := range count {
		var members []string
		members = append(members, busyMembers[:scaleMembers-1]...)
		team := addTeam(t, claude, fmt.Sprintf("/home/ada/projects/project-%d", i), time.Duration(i)*time.Minute, simagent.Process{}, members...)
		names = append(names, team.Name())
	}
	return names
}

// fillTeams records messages in each team, as if each agent had taken its own in batches,
// apart from the last ones.
func fillTeams(t *testing.T, w *world, names []string, messages int) {
	t.Helper()
	ctx := t.Context()
	j, err := journal.Open(ctx, filepath.Join(w.State, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	const batch, kept = 500, 40
	for _, name := range names {
		c, err := w.Team(name).Config(ctx)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-time.Duration(messages) * time.Minute)
		for first := 0; first < messages; first += batch {
			boxes := map[string][]json.RawMessage{}
			for n := first; n < min(first+batch, messages); n++ {
				m := busyMessage(n)
				if m.to == busyMembers[scaleMembers-1] || m.from == busyMembers[scaleMembers-1] || m.to == "operator" {
					m.to = "team-lead"
				}
				if n%400 == 399 {
					m.to = "user"
				}
				at = at.Add(time.Minute)
				raw, err := json.Marshal(map[string]any{
					"from": m.from, "text": m.text, "summary": m.summary, "timestamp": at.UTC().Format("2006-01-02T15:04:05.000Z"),
					"msg_id": fmt.Sprintf("s%d", n), "read": m.to != "user",
				})
				if err != nil {
					t.Fatal(err)
				}
				boxes[m.to] = append(boxes[m.to], raw)
			}
			var came, left []journal.Snapshot
			for box, raws := range boxes {
				rows := func(raws []json.RawMessage) ([]byte, []inbox.Row) {
					data, err := json.Marshal(raws)
					if err != nil {
						t.Fatal(err)
					}
					rows, err := inbox.Parse(data)
					if err != nil {
						t.Fatal(err)
					}
					return data, rows
				}
				s := journal.Snapshot{InboxKey: inbox.Key(w.Root.Path(), c.Instance(), box), At: at, Done: at}
				_, s.Rows = rows(raws)
				came = append(came, s)
				s.At, s.Done, s.Rows = at.Add(time.Second), at.Add(time.Second), nil
				if first+batch >= messages {
					var data []byte
					data, s.Rows = rows(raws[max(0, len(raws)-kept):])
					if err := os.WriteFile(w.Path(name, "inboxes", box+".json"), data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				left = append(left, s)
			}
			for _, list := range [][]journal.Snapshot{came, left} {
				if _, err := j.Messages.Observe(ctx, list...); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// startForScale starts the service of w in a process of its own, and returns its id.
func startForScale(t *testing.T, w *world) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestScale$", "-test.v")
	cmd.Env = append(os.Environ(), envServe+"="+w.Root.Path()+"\n"+w.State)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w.logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // ends it
		if err := cmd.Wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("the service ended with: %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if addr, ok := strings.CutPrefix(lines.Text(), "serving at "); ok {
			w.addr = addr
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
			return cmd.Process.Pid
		}
	}
	t.Fatalf("the service does not start: %v", lines.Err())
	return 0
}

// serveForScale is that process. It ends when its standard input does.
func serveForScale(t *testing.T, dirs string) {
	claude, state, _ := strings.Cut(dirs, "\n")
	w := prepare(t, claude)
	w.State = state
	w.start()
	defer w.end()
	fmt.Println("serving at " + w.addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
