package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
)

// EnvScale is "TEAMS,MESSAGES": the number of teams in TestScale, with 10 members each, and the
// number of messages in each team. Unset, both are small.
const EnvScale = "TEAMBRIDGE_PAGE_SCALE"

const scaleMembers = 10

// With many teams, while conversations are opened and messages come for hours, the page needs no more memory in the
// end than after the first hours. The log has the times to load the page and to open a conversation.
func TestScale(t *testing.T) {
	count, messages := 3, 150
	if text := os.Getenv(EnvScale); text != "" {
		if _, err := fmt.Sscanf(text, "%d,%d", &count, &messages); err != nil {
			t.Fatalf("%s=%s: %v", EnvScale, text, err)
		}
	}
	browser := launch(t)
	claude := filepath.Join(t.TempDir(), "claude")
	names := manyTeams(t, claude, count)
	w := prepare(t, claude)
	fillTeams(t, w, names, messages)
	w.start()
	p := open(t, browser, w, w.address())
	p.run(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.every = []; const real = setInterval;
		window.setInterval = (f, ms) => { if (ms >= 30000) every.push(f); return real(f, ms); }
		new MutationObserver((_, o) => { if (document.querySelector("nav .team")) { o.disconnect(); requestAnimationFrame(() => setTimeout(() => performance.mark("teams"))); } })
			.observe(document, {childList: true, subtree: true})`}))
	p.alone()
	p.until(`performance.getEntriesByName("teams").length > 0 && every.length > 0`)
	t.Logf("list of teams after %.0f ms", value[float64](p, `performance.getEntriesByName("teams")[0].startTime`))
	p.until(`document.querySelectorAll("nav .team").length === %d`, count)
	p.picture("scale")
	const hours, opened, sent = 8, 6, 20
	var heaps []float64
	for hour := range hours {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		took, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](fmt.Sprintf(`(async () => {
			const took = [], teams = %s, members = %s;
			for (let n = %d; n < %d; n++) {
				const team = teams[n * 7 %% teams.length], member = members[n * 5 %% members.length];
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
			for (let n = 0; n < 120; n++) every.forEach(f => f());
			return took.sort((a, b) => a - b);
		})()`, quoteAll(names), quoteAll(busyMembers[:scaleMembers-1]), hour*opened, (hour+1)*opened), chromedp.EvalAwaitPromise))
		cancel()
		must(t, err)
		for i := range sent {
			w.Send(names[i%count], busyMembers[0], busyMembers[1], fmt.Sprintf("live %d of hour %d", i, hour))
		}
		last := fmt.Sprintf("the last one of hour %d", hour)
		w.Send(names[count-1], busyMembers[0], "user", last)
		p.until(`document.querySelector("#announcements").textContent.includes(%s)`, last)
		p.run(do(`location.hash = "#/"`), frames, call(heapprofiler.CollectGarbage, cdp.Empty{}))
		heap, err := chromedp.Call(p.ctx, runtime.GetHeapUsage, cdp.Empty{})
		must(t, err)
		heaps = append(heaps, heap.UsedSize/(1<<20))
		t.Logf("hour %d: a conversation opens within %.0f ms, or %.0f ms; heap %.2f MiB", hour, took[len(took)/2], took[len(took)-1], heaps[hour])
	}
	// Some memory stays from the first time, so the last measurements are compared with the second. Garbage that is not
	// yet collected can be in one of them, and a leak is in all.
	if first, last := heaps[1], slices.Min(heaps[hours-3:]); last > 1.5*first {
		t.Errorf("the heap has grown from %.1f to %.1f MiB", first, last)
	}
}

func quoteAll(list []string) string {
	data, _ := json.Marshal(list)
	return string(data)
}

// manyTeams makes teams, and returns their names.
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
	must(t, err)
	defer j.Close()
	const batch, kept = 500, 40
	for _, name := range names {
		c, err := w.Team(name).Config(ctx)
		must(t, err)
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
				must(t, err)
				boxes[m.to] = append(boxes[m.to], raw)
			}
			var came, left []journal.Snapshot
			for box, raws := range boxes {
				rows := func(raws []json.RawMessage) ([]byte, []inbox.Row) {
					data, err := json.Marshal(raws)
					must(t, err)
					rows, err := inbox.Parse(data)
					must(t, err)
					return data, rows
				}
				s := journal.Snapshot{InboxKey: inbox.Key(w.Root.Path(), c.Instance(), box), At: at, Done: at}
				_, s.Rows = rows(raws)
				came = append(came, s)
				s.At, s.Done, s.Rows = at.Add(time.Second), at.Add(time.Second), nil
				if first+batch >= messages {
					var data []byte
					data, s.Rows = rows(raws[max(0, len(raws)-kept):])
					must(t, os.WriteFile(w.Path(name, "inboxes", box+".json"), data, 0o600))
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
