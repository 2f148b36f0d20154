package interop

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// Tasks are shown as a real lead and a real teammate change them with their tools: owners, blockers, statuses, and
// deletion. Whether the list stays when its team ends depends on the version. A service records the changes; one of
// them is made while no service runs.
func TestRealTasks(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		standin.Require(t, v)
		home := standin.NewHome(t, nil)
		home.Extra = []string{"CLAUDE_CODE_ENABLE_TASKS=1", "CLAUDE_CODE_ENABLE_TODO_TOOLS=1"} // see CONTRACT.md
		u := &user{t: t, team: standin.StartTeam(t, v, home), member: v, home: t.TempDir()}
		ctx := deadline(t, patience)
		following := u.start("tasks", "--team", u.team.Name, "--watch", "--json")
		state := t.TempDir()
		service := serve(t, home, state)
		type input map[string]any
		// until waits until a task fits; a task that is not in the list is empty.
		until := func(id string, fits func(api.Task) bool) {
			t.Helper()
			following.line(ctx, func(line string) bool {
				var list []api.Task
				if err := json.Unmarshal([]byte(line), &list); err != nil {
					t.Errorf("%v: %s", err, line)
				}
				i := slices.IndexFunc(list, func(o api.Task) bool { return o.ID == id })
				if i < 0 {
					return fits(api.Task{})
				}
				if list[i].Team != u.team.Name || list[i].List != u.team.Name || list[i].Session == "" {
					t.Errorf("it is in another list: %+v", list[i])
				}
				return fits(list[i])
			})
		}
		lead := func(tool string, in input) {
			t.Helper()
			prompts(t, ctx, u.team.Lead, standin.CallLine(tool, in))
		}
		worker := func(in input) { u.must("send", u.team.Member, standin.CallLine("TaskUpdate", in)) }

		lead("TaskCreate", input{"subject": "Read the code", "description": "All of it", "activeForm": "Reading", "metadata": input{"k": 1}})
		until("1", func(o api.Task) bool {
			return o.Subject == "Read the code" && o.Description == "All of it" && o.ActiveForm == "Reading" && o.Status == api.TaskPending && string(o.Metadata) == `{"k":1}`
		})
		lead("TaskCreate", input{"subject": "Write the test", "description": "d"})
		until("2", func(o api.Task) bool { return o.Subject == "Write the test" && o.Owner == "" && len(o.BlockedBy) == 0 })
		lead("TaskUpdate", input{"taskId": "2", "addBlockedBy": []string{"1"}})
		until("2", func(o api.Task) bool {
			return slices.Equal(o.BlockedBy, []string{"1"}) && slices.Equal(o.WaitsFor, o.BlockedBy)
		})
		lead("TaskUpdate", input{"taskId": "1", "owner": standin.Worker})
		until("1", func(o api.Task) bool { return o.Owner == standin.Worker && slices.Equal(o.Blocks, []string{"2"}) })
		worker(input{"taskId": "1", "status": "in_progress"})
		until("1", func(o api.Task) bool { return o.Owner == standin.Worker && o.Status == api.TaskInProgress })
		worker(input{"taskId": "1", "status": "completed"})
		until("1", func(o api.Task) bool { return o.Status == api.TaskCompleted })
		list := decoded[[]api.Task](t, u.must("tasks", "--team", u.team.Name, "--json"))
		if len(list) != 2 || len(list[1].WaitsFor) > 0 || !slices.Equal(list[1].BlockedBy, []string{"1"}) {
			t.Errorf("once nothing blocks it: %+v", list)
		}
		history := func() (lines []string, changes []api.TaskChange) {
			t.Helper()
			must(t, json.Unmarshal([]byte(u.must("--state-dir", state, "tasks", "--history", "--team", u.team.Name, "--json")), &changes))
			for _, c := range changes {
				lines = append(lines, c.ID+" "+c.What+" "+c.Was+">"+c.Now)
			}
			return lines, changes
		}
		history() // with the last change
		service.stop()
		lead("TaskUpdate", input{"taskId": "2", "status": "deleted"})
		until("2", func(o api.Task) bool { return o.ID == "" })
		service = serve(t, home, state)
		got, changes := history()
		want := []string{
			"1 created >pending", "2 created >pending", "2 blockedBy >1", "1 owner >" + standin.Worker, "1 status pending>in_progress", "1 status in_progress>completed", "2 deleted pending>",
		}
		if !slices.Equal(got, want) {
			t.Errorf("recorded are %q, want %q", got, want)
		}
		for i, c := range changes {
			if gap := i == len(changes)-1; (c.After != nil) != gap || gap && !c.After.Before(c.At) || !gap && time.Since(c.At) > 3*time.Minute {
				t.Errorf("%+v", c)
			}
		}
		service.stop()

		must(t, u.team.Lead.End(ctx))
		if err := json.Unmarshal([]byte(u.must("tasks", "--team", u.team.Name, "--json")), &list); err != nil || len(list) != 1 || list[0].Owner != standin.Worker {
			t.Errorf("after the end of the team: %+v, %v", list, err)
		}
	})
}
