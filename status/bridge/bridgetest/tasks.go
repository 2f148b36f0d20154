package bridgetest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status/api"
)

// listed returns tasks as lines of LIST ID STATUS OWNER.
func listed(found api.Tasks) (lines []string) {
	for _, t := range found.Tasks {
		lines = append(lines, strings.Join([]string{t.List, t.ID, t.Status, t.Owner}, " "))
	}
	return lines
}

// tasks are the cases of the tasks that Claude Code keeps.
var tasks = map[string]func(*world){
	"tasks": func(w *world) {
		const session = "11111111-2222-4333-8444-555555555555"
		w.task(session, "1", `{"subject": "alone", "status": "odd", "metadata": {"k": 1}}`)
		w.task(session, "2", `{"subject": "hidden", "metadata": {"_internal": true}}`)
		w.task(session, "3", "{}]")
		w.task("shared", "7", `{"owner": "worker@elsewhere"}`)
		config, err := w.Root.Team(newer)
		w.must(err)
		defer config.Close()
		c, err := config.Config(w.Context())
		w.must(err)
		older, newer := []string{older + " 1 completed worker", older + " 2 in_progress worker", older + " 4 pending "}, []string{newer + " 1 completed worker", newer + " 2 in_progress worker", newer + " 4 pending "}
		alone, shared := []string{session + " 1 odd "}, []string{"shared 7  worker@elsewhere"}
		for name, tc := range map[string]struct {
			q    api.TaskQuery
			want []string
		}{
			"all":                       {api.TaskQuery{}, slices.Concat(alone, older, newer, shared)},
			"a team":                    {api.TaskQuery{Team: c.Team}, newer},
			"no team":                   {api.TaskQuery{Team: "shared"}, shared},
			"a session":                 {api.TaskQuery{Session: session}, alone},
			"the beginning of one":      {api.TaskQuery{Session: session[:8]}, alone},
			"the session of a lead":     {api.TaskQuery{Session: c.LeadSessionID}, newer},
			"an owner":                  {api.TaskQuery{Team: c.Team, Who: "worker"}, newer[:2]},
			"an owner in all":           {api.TaskQuery{Who: "worker"}, slices.Concat(older[:2], newer[:2], shared)},
			"an id":                     {api.TaskQuery{Team: c.Team, Who: "4"}, newer[2:]},
			"an id as agents say it":    {api.TaskQuery{Team: c.Team, Who: "#2"}, newer[1:2]},
			"a member without any":      {api.TaskQuery{Team: c.Team, Who: "team-lead"}, nil},
			"the lead, which has none":  {api.TaskQuery{Team: c.Team, Who: "lead"}, nil},
			"a member in another spell": {api.TaskQuery{Team: c.Team, Who: "WORKER"}, newer[:2]},
		} {
			found, err := w.b.Tasks(w.Context(), tc.q)
			if got := listed(found); err != nil || !slices.Equal(got, tc.want) || found.Tasks == nil {
				w.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
			}
			if some := tc.q.Team == "" && strings.HasPrefix(session, tc.q.Session); some != (len(found.Problems) == 1) || some && found.Problems[0].Code != api.CodeCorrupt {
				w.Errorf("%s: the problems are %+v", name, found.Problems)
			}
			for _, t := range found.Tasks {
				if t.Blocks == nil || t.BlockedBy == nil || t.WaitsFor == nil || t.Since.IsZero() {
					w.Errorf("%s: %+v", name, t)
				}
				switch {
				case t.List == session && (t.Team != "" || t.Session != session || string(t.Metadata) != `{"k":1}` && string(t.Metadata) != `{"k": 1}`),
					t.List == c.Team && (t.Team != c.Team || t.Session != c.LeadSessionID),
					t.List == c.Team && t.ID == "2" && (t.Subject != "Write the test" || !slices.Equal(t.BlockedBy, []string{"1"}) || len(t.WaitsFor) > 0 || !slices.Equal(t.Blocks, []string{"4"})),
					t.List == c.Team && t.ID == "4" && !slices.Equal(t.WaitsFor, []string{"2"}):
					w.Errorf("%s: %+v", name, t)
				}
			}
		}
		for code, queries := range map[api.Code][]api.TaskQuery{
			api.CodeNotFound: {{Team: "nobody"}, {Session: "99999999"}, {Session: "session-"}, {Team: c.Team, Who: "wroker"}, {Who: "99"}, {Session: session, Who: "worker"}},
			api.CodeInvalid:  {{Team: ".."}, {Session: "1111"}},
			api.CodeUsage:    {{Team: c.Team, Session: session}},
		} {
			for _, q := range queries {
				_, err := w.b.Tasks(w.Context(), q)
				w.fails(err, code)
				for _, err := range w.b.FollowTasks(w.Context(), q) {
					w.fails(err, code)
				}
			}
		}
	},
	"a team without tasks": func(w *world) {
		w.must(os.RemoveAll(filepath.Join(w.Root.Path(), "tasks")))
		found, err := w.b.Tasks(w.Context(), api.TaskQuery{Team: newer})
		if err != nil || found.Tasks == nil || len(found.Tasks) > 0 {
			w.Errorf("%+v, %v", found, err)
		}
		_, err = w.b.Tasks(w.Context(), api.TaskQuery{Team: newer, Who: "worker"})
		w.must(err)
		_, err = w.b.Tasks(w.Context(), api.TaskQuery{Team: newer, Who: "wroker"})
		w.fails(err, api.CodeNotFound)
	},
	"history of tasks": func(w *world) {
		ctx := w.Context()
		j, err := journal.Open(ctx, filepath.Join(w.State, "journal.db"))
		w.must(err)
		defer j.Close()
		const session = "11111111-2222-4333-8444-555555555555"
		look := func(list string, at time.Time, gap bool, tasks ...journal.Task) {
			_, err := j.Tasks.Observe(ctx, w.Root.Path(), journal.TaskLook{List: list, Tasks: tasks, At: at, Gap: gap})
			w.must(err)
		}
		for h := (api.TaskHistory{}); w.recorded() && h.Since == nil; { // wait for its first look
			h, err = w.b.TaskHistory(ctx, api.TaskHistoryQuery{})
			w.must(err)
		}
		began := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
		look("ended", began, true)
		look("ended", began.Add(time.Minute), false, journal.Task{ID: "1", Subject: "Measure", Status: "pending", Changed: began.Add(time.Minute)})
		look("ended", began.Add(2*time.Minute), false, journal.Task{ID: "1", Subject: "Measure", Status: "in_progress", Owner: "worker@ended", BlockedBy: []string{"2", "3"}, Changed: began.Add(2 * time.Minute)})
		look("ended", began.Add(4*time.Minute), true)
		look(session, began.Add(5*time.Minute), false, journal.Task{ID: "7", Status: "odd", Changed: began.Add(5 * time.Minute)})
		look(session, began.Add(6*time.Minute), false)
		lines := func(q api.TaskHistoryQuery) (lines []string, h api.TaskHistory) {
			w.Helper()
			h, err := w.b.TaskHistory(ctx, q)
			w.must(err)
			if h.Changes == nil || h.Since == nil || !h.Since.Equal(began) && !w.recorded() {
				w.Errorf("%+v: %+v", q, h)
			}
			for _, c := range h.Changes {
				if c.Session == "" && c.Team == c.List || c.Team == "" && c.Session == c.List {
					lines = append(lines, c.ID+" "+c.What+" "+c.Was+">"+c.Now)
				}
			}
			return lines, h
		}
		whole := []string{"1 deleted in_progress>", "1 blockedBy >2, 3", "1 owner >worker@ended", "1 status pending>in_progress", "1 created >pending"}
		for name, tc := range map[string]struct {
			q    api.TaskHistoryQuery
			want []string
		}{
			"a list that ended":  {api.TaskHistoryQuery{TaskQuery: api.TaskQuery{Team: "ended"}}, whole},
			"who had it":         {api.TaskHistoryQuery{TaskQuery: api.TaskQuery{Team: "ended", Who: "worker"}}, whole},
			"an id":              {api.TaskHistoryQuery{TaskQuery: api.TaskQuery{Team: "ended", Who: "#1"}, Limit: 2}, whole[:2]},
			"a session":          {api.TaskHistoryQuery{TaskQuery: api.TaskQuery{Session: session[:8]}}, []string{"7 deleted odd>", "7 created >odd"}},
			"a team without any": {api.TaskHistoryQuery{TaskQuery: api.TaskQuery{Team: older}}, nil},
		} {
			if got, h := lines(tc.q); !slices.Equal(got, tc.want) || h.More != (tc.q.Limit > 0) {
				w.Errorf("%s: %q, want %q", name, got, tc.want)
			}
		}
		_, h := lines(api.TaskHistoryQuery{TaskQuery: api.TaskQuery{Team: "ended"}})
		if gone, first := h.Changes[0], h.Changes[4]; gone.After == nil || !gone.After.Equal(began.Add(2*time.Minute)) && !w.recorded() || !gone.At.Equal(began.Add(4*time.Minute)) || first.After != nil || first.Subject != "Measure" {
			w.Errorf("%+v", h)
		}
		if got, _ := lines(api.TaskHistoryQuery{TaskQuery: api.TaskQuery{Team: "ended"}, Before: h.Changes[2].Seq}); !slices.Equal(got, whole[3:]) {
			w.Errorf("before: %q", got)
		}
		for code, queries := range map[api.Code][]api.TaskQuery{
			api.CodeNotFound: {{Team: "nobody"}, {Session: "99999999"}, {Team: newer, Who: "wroker"}},
			api.CodeInvalid:  {{Team: ".."}, {Session: "1111"}},
			api.CodeUsage:    {{Team: newer, Session: session}},
		} {
			for _, q := range queries {
				_, err := w.b.TaskHistory(ctx, api.TaskHistoryQuery{TaskQuery: q})
				w.fails(err, code)
			}
		}

		// A service records present changes, and has them once they are requested.
		if !w.recorded() {
			return
		}
		ninth := api.TaskHistoryQuery{TaskQuery: api.TaskQuery{Team: newer, Who: "9"}}
		w.task(newer, "9", `{"subject": "New", "status": "pending"}`)
		if got, _ := lines(ninth); !slices.Equal(got, []string{"9 created >pending"}) {
			w.Errorf("%q", got)
		}
		w.task(newer, "9", `{"subject": "New", "status": "completed", "owner": "worker"}`)
		if got, h := lines(ninth); !slices.Equal(got, []string{"9 owner >worker", "9 status pending>completed", "9 created >pending"}) || h.Changes[0].After != nil {
			w.Errorf("%q: %+v", got, h)
		}
	},
	"following tasks, and no longer": func(w *world) {
		for range 2 {
			for found, err := range w.b.FollowTasks(w.Context(), api.TaskQuery{}) {
				if w.must(err); len(found.Tasks) != 6 {
					w.Errorf("%+v", found)
				}
				break
			}
		}
	},
	"following tasks": func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		step := 0
		for found, err := range w.b.FollowTasks(ctx, api.TaskQuery{Team: newer}) {
			if step == 4 {
				break
			}
			w.must(err)
			got := listed(found)
			switch {
			case step == 0 && len(got) == 3:
				w.task("another", "1", "{}")
				w.task(newer, "5", `{"status": "pending", "owner": "reviewer"}`)
			case step == 1 && slices.Contains(got, newer+" 5 pending reviewer"):
				w.task(newer, "5", `{"status": "completed", "owner": "reviewer"}`)
			case step == 2 && slices.Contains(got, newer+" 5 completed reviewer"):
				w.must(os.RemoveAll(filepath.Join(w.Root.Path(), "tasks", newer)))
			case step == 3 && len(got) == 0:
				cancel()
			case step == 3 && len(got) < 4:
				continue // some of them are removed
			default:
				w.Fatalf("step %d: %q", step, got)
			}
			step++
		}
		if step != 4 {
			w.Errorf("it ended at step %d", step)
		}
	},
}

// recorded reports whether a service records changes.
func (w *world) recorded() bool {
	_, served := w.b.(interface{ Close() })
	return served
}

// task writes a task as Claude Code does: another file, and a rename.
func (w *world) task(list, id, content string) {
	dir := filepath.Join(w.Root.Path(), "tasks", list)
	w.must(os.MkdirAll(dir, 0o700))
	w.must(os.WriteFile(filepath.Join(dir, id+".json.tmp.0a1b2c3d"), []byte(content), 0o600))
	w.must(os.Rename(filepath.Join(dir, id+".json.tmp.0a1b2c3d"), filepath.Join(dir, id+".json")))
}
