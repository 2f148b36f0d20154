package claude

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"teambridge/relay/agent"
	"teambridge/relay/claude/session"
	"teambridge/teams/transcript"
)

// signals adds to events the facts that a relay uses with any runtime.
type signals struct {
	root   string          // of Claude Code
	tasks  map[string]bool // running background tasks, by id
	crons  int             // number of recurring schedules of the agent
	wakeup bool            // the agent has scheduled its own next turn
}

func (s *signals) add(e *agent.Event, l *session.Line) {
	before := s.background()
	switch p := e.Payload.(type) {
	case Init:
		e.Start = &agent.Start{Session: p.Session, ClaudeCode: p.Version, Mode: p.PermissionMode}
	case Status:
		e.PermissionMode = p.PermissionMode
	case Result:
		e.Result = l.Outcome()
	case Assistant:
		e.Recipients = p.Recipients
		for _, tool := range p.Tools {
			s.schedule(tool)
		}
	case Lifecycle:
		if bytes.Contains(e.Line, []byte(`"wakeup_source":"loop_wakeup"`)) {
			s.wakeup = false // the scheduled turn has begun
		}
	case Other:
		if p.Type == "system" {
			s.task(l)
			if p.Subtype == session.WritesLost {
				e.Lost = s.lost(l)
			}
		}
	}
	if now := s.background(); now != before {
		e.Background = &now
	}
}

func (s *signals) background() agent.Background {
	return agent.Background{Tasks: len(s.tasks), Scheduled: s.crons > 0 || s.wakeup}
}

// lost describes the data that Claude Code could not write. It reports the loss once, as it exits with status 0.
func (s *signals) lost(l *session.Line) string {
	why, what := fmt.Sprintf("the disk is full (%.40s)", l.LostCode), "changes of its configuration"
	if l.LostCode == "EDQUOT" {
		why = "the disk quota is used up (EDQUOT)"
	}
	if len(l.Lost) == 0 || slices.Contains(l.Lost, "transcript") {
		what = "a part of its transcript, which it does not remember"
	}
	return fmt.Sprintf("%s%s: the agent lost %s; make room on the disk of %s", agent.LostWrites, why, what, s.root)
}

// recipient returns the recipient of a SendMessage use, "*" for all members, or "" for any other tool.
func recipient(use transcript.Block) string {
	var input struct{ To, Type string }
	if use.Name != "SendMessage" || json.Unmarshal(use.Input, &input) != nil {
		return ""
	}
	if input.Type == "broadcast" {
		return "*"
	}
	return input.To
}

// schedule notes that the agent used a scheduling tool, even if the use was refused. A schedule ends with the
// process.
func (s *signals) schedule(tool string) {
	switch tool {
	case "CronCreate":
		s.crons++
	case "CronDelete":
		s.crons = max(0, s.crons-1)
	case "ScheduleWakeup":
		s.wakeup = true
	}
}

// task updates the set of background tasks that run.
func (s *signals) task(l *session.Line) {
	if s.tasks == nil {
		s.tasks = map[string]bool{}
	}
	switch l.Subtype {
	case "task_started":
		s.tasks[l.TaskID] = true
	case "task_notification":
		delete(s.tasks, l.TaskID)
	case "background_tasks_changed":
		clear(s.tasks)
		for _, t := range l.Tasks {
			s.tasks[t.ID] = true
		}
	}
}
