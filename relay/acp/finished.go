package acp

import (
	"context"
	"encoding/json"
	"strings"

	"teambridge/relay/claude"
	"teambridge/relay/codex"
	"teambridge/relay/process"
	"teambridge/relay/qwen"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// The functions in this file read the agent's own record of an idle session. They prove that the turn of a
// message ended, and return the agent's last text. After a kill, the record may lack the proof.

func (o Options) lookup(name string) (string, bool) { return process.Lookup(o.env(), name) }

// isPrompt reports whether a text in the record is the prompt of a message.
func isPrompt(text, message string) bool { return strings.HasPrefix(text, Envelope(message)) }

// some reports whether is holds for a line of a record. It passes the lines in order, and stops at that line.
func some(path string, is func(line []byte) bool) bool {
	tail := transcript.Tail{Path: path}
	for line, err := range tail.Lines() {
		if err != nil {
			return false
		}
		if is(line) {
			return true
		}
	}
	return false
}

// finishedCodex looks for Codex's record of the end of the turn, with the last text. A failed turn has no
// last text.
func finishedCodex(o Options, session, message string) (answer string, ok bool) {
	path, _ := codex.Rollout(codex.Home(o.lookup), session)
	turn, its := "", ""
	ok = some(path, func(line []byte) bool {
		var r struct {
			Type    string
			Payload struct {
				Type, Role string
				Content    []struct{ Text string }
			}
		}
		if e, ok := codex.Parse(line); ok && e.Kind == codex.Begun {
			turn = e.Turn
		} else if ok && e.Kind == codex.Ended {
			answer = e.Text
			return its != "" && e.Turn == its && e.Text != ""
		}
		if its == "" && json.Unmarshal(line, &r) == nil && r.Type == "response_item" && r.Payload.Role == "user" {
			for _, c := range r.Payload.Content {
				if isPrompt(c.Text, message) {
					its = turn
				}
			}
		}
		return false
	})
	return answer, ok
}

// finishedQwen looks for a checkpoint of Qwen Code that names the answer.
func finishedQwen(o Options, session, message string) (answer string, ok bool) {
	path, _ := qwen.Chat(qwen.Home(o.lookup), o.Dir, session)
	its, last := false, "" // last is the record of the last answer
	ok = some(path, func(line []byte) bool {
		var r struct {
			UUID, Subtype string
			Message       struct{ Parts []struct{ Text string } }
			Payload       struct {
				Answer string `json:"assistantRecordUuid"`
			} `json:"systemPayload"`
		}
		if json.Unmarshal(line, &r) != nil {
			return false
		}
		if r.Subtype == "branch_checkpoint" {
			return last != "" && r.Payload.Answer == last
		}
		switch e, _ := qwen.Parse(line); e.Kind {
		case qwen.Begun, qwen.Mail:
			its, last = len(r.Message.Parts) > 0 && isPrompt(r.Message.Parts[0].Text, message), ""
		case qwen.Ended:
			if its {
				last, answer = r.UUID, e.Text
			}
		case qwen.Worked, qwen.Failed:
			last = ""
		}
		return false
	})
	return answer, ok
}

// finishedClaude looks for an answer of Claude Code with a stop reason that ends the turn.
func finishedClaude(o Options, session, message string) (answer string, ok bool) {
	root, _ := teams.Find("", o.lookup) // an empty root has no transcripts
	t := claude.Transcript{Root: root, Dir: o.Dir, Session: session}
	path, _ := t.Path()
	var r transcript.Record
	if !some(path, func(line []byte) (ok bool) {
		r, ok = transcript.Parse(line)
		return ok && r.Type == "user" && isPrompt(transcript.Texts(r.Message.Content, ""), message)
	}) {
		return "", false
	}
	turn, err := t.Turn(context.Background(), r.UUID)
	return turn.Text, err == nil && turn.Finished
}
