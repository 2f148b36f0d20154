package bridgetest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"teambridge/status/api"
)

// usage counts the transcripts of a session with a subagent, of a fork of it, and of a teammate.
func usage(w *world) {
	u, err := w.b.Usage(w.Context(), api.UsageQuery{})
	if err != nil || u.Rows == nil || len(u.Rows) != 0 || u.Total.Tokens() != 0 {
		w.Errorf("without a transcript: %+v, %v", u, err)
	}
	_, err = w.b.Usage(w.Context(), api.UsageQuery{By: []string{"mood"}})
	w.fails(err, api.CodeUsage)

	now := time.Now().UTC()
	at := func(back time.Duration) string { return now.Add(-back).Format(time.RFC3339Nano) }
	answer := func(id, model string, output int, back time.Duration, more string) string {
		return fmt.Sprintf(`{"type":"assistant","cwd":"/work","timestamp":%q,%s"message":{"id":%q,"model":%q,"usage":{"input_tokens":1,"cache_creation_input_tokens":2,"cache_read_input_tokens":3,"output_tokens":%d}}}`+"\n",
			at(back), more, id, model, output)
	}
	const day = 24 * time.Hour
	for name, text := range map[string]string{
		"session-one.jsonl": answer("m-0", "big", 1000, 30*day, "") + answer("m-1", "big", 10, 2*day, "") + answer("m-1", "big", 20, 2*day, "") +
			`{"type":"cost-state","modelUsage":{"big":{"costUSD":0.25}}}` + "\n" + answer("m-2", "big", 40, 0, ""), // not in the fork
		"session-one/subagents/agent-a1.jsonl": answer("m-3", "small", 5, 2*day, `"isSidechain":true,`),
		"session-two.jsonl": answer("m-1", "big", 20, 2*day, `"requestSessionId":"session-one",`) + answer("m-4", "big", 80, 0, "") +
			`{"type":"cost-state","modelUsage":{"big":{"costUSD":0.375}}}` + "\n",
		"mate.jsonl": answer("m-5", "small", 7, 0, `"teamName":"gone","agentName":"worker",`),
	} {
		path := filepath.Join(w.Root.Path(), "projects", "-work", name)
		w.must(os.MkdirAll(filepath.Dir(path), 0o700))
		w.must(os.WriteFile(path, []byte(text), 0o600))
	}
	row := func(answers, output int64, cost float64, unstated bool, r api.UsageRow) api.UsageRow {
		r.Answers, r.Input, r.CacheCreation, r.CacheRead, r.Output, r.Unstated = answers, answers, 2*answers, 3*answers, output, unstated
		if cost > 0 {
			r.Cost = &cost
		}
		return r
	}
	local := func(back time.Duration) string { return now.Add(-back).Local().Format(time.DateOnly) }
	for _, test := range []struct {
		q    api.UsageQuery
		want []api.UsageRow
	}{
		{api.UsageQuery{}, []api.UsageRow{
			row(1, 80, 0.125, false, api.UsageRow{Team: "sessions", Member: "session-", Session: "session-two"}),
			row(3, 65, 0.25, true, api.UsageRow{Team: "sessions", Member: "session-", Session: "session-one"}),
			row(1, 7, 0, true, api.UsageRow{Team: "gone", Member: "worker"}),
		}},
		{api.UsageQuery{By: []string{api.ByTeam}, Team: "gone"}, []api.UsageRow{row(1, 7, 0, true, api.UsageRow{Team: "gone"})}},
		{api.UsageQuery{By: []string{api.ByDay, api.ByModel}, Team: "sessions"}, []api.UsageRow{
			row(2, 120, 0.125, true, api.UsageRow{Day: local(0), Model: "big"}),
			row(1, 20, 0.25, false, api.UsageRow{Day: local(2 * day), Model: "big"}),
			row(1, 5, 0, false, api.UsageRow{Day: local(2 * day), Model: "small"}),
		}},
		{api.UsageQuery{By: []string{api.ByProject}, Since: now.AddDate(0, 0, -40), Until: now.AddDate(0, 0, -20)},
			[]api.UsageRow{row(1, 1000, 0, false, api.UsageRow{Project: "/work"})}},
	} {
		u, err := w.b.Usage(w.Context(), test.q)
		w.must(err)
		if !reflect.DeepEqual(u.Rows, test.want) {
			got, _ := json.Marshal(u.Rows)
			want, _ := json.Marshal(test.want)
			w.Errorf("usage of %+v:\n%s\nwant\n%s", test.q, got, want)
		}
	}

	// A fork also reports its parent's cost, even if it was idle for a long time.
	write := func(name, text string) string {
		path := filepath.Join(w.Root.Path(), "projects", "-work", name)
		w.must(os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	state := func(cost string) string {
		return `{"type":"cost-state","modelUsage":{"big":{"costUSD":` + cost + `}}}` + "\n"
	}
	parent := write("old-one.jsonl", answer("o-1", "big", 1, 30*day, "")+state("5"))
	w.must(os.Chtimes(parent, time.Time{}, now.Add(-30*day)))
	write("new-one.jsonl", answer("o-1", "big", 1, 30*day, `"requestSessionId":"old-one",`)+answer("o-2", "big", 2, 0, "")+state("5.5"))
	u, err = w.b.Usage(w.Context(), api.UsageQuery{})
	w.must(err)
	for _, r := range u.Rows {
		if r.Session == "new-one" && (r.Cost == nil || *r.Cost != 0.5) {
			w.Errorf("the fork: %+v", r)
		}
	}
}
