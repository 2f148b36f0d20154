package pane

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/wake"
)

const (
	nonceA = "aaaaaaaaaaaa"
	nonceB = "bbbbbbbbbbbb"
)

func typedLine(nonce string) string { return "[teambridge " + nonce + " from tester] do it" }

func userRecord(content any) object {
	return object{"type": "user", "message": object{"content": content}}
}

func assistantRecord(id, stop, text string) object {
	var reason any
	if stop != "" {
		reason = stop
	}
	return object{"type": "assistant", "timestamp": time.Now().UTC(), "message": object{"id": id, "stop_reason": reason, "content": []object{{"type": "text", "text": text}}}}
}

func queueRecord(operation, content string) object {
	o := object{"type": "queue-operation", "operation": operation}
	if content != "" {
		o["content"] = content
	}
	return o
}

// blockedRecord says that a hook has refused a prompt.
func blockedRecord(why, prompt string) object {
	return object{"type": "system", "subtype": "informational", "content": "UserPromptSubmit operation blocked by hook:\n[check]: " + why + "\n\n\nOriginal prompt: " + prompt}
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	a, b := typedLine(nonceA), typedLine(nonceB)
	attachment := object{"type": "attachment", "attachment": object{"type": "queued_command", "prompt": a}}
	given, ended, final := progress{given: true}, progress{given: true, ended: true, answer: "Done."}, progress{given: true, ended: true, final: true, answer: "Done."}
	for _, test := range []struct {
		name    string
		records []object
		want    map[string]progress
	}{
		{"nothing", []object{userRecord("hello"), assistantRecord("1", "end_turn", "Hi.")}, map[string]progress{}},
		{"idle", []object{userRecord(a)}, map[string]progress{nonceA: given}},
		{"blocks", []object{userRecord([]object{{"type": "text", "text": "<pasted_content id=\"x\">\n" + a + "\n</pasted_content>"}})}, map[string]progress{nonceA: given}},
		{"tool", []object{userRecord(a), assistantRecord("1", "tool_use", "Looking."), userRecord([]object{{"type": "tool_result", "content": "x"}})}, map[string]progress{nonceA: {given: true, answer: "Looking."}}},
		{"ended", []object{userRecord(a), assistantRecord("1", "end_turn", "Done.")}, map[string]progress{nonceA: ended}},
		{"blocks of an answer", []object{userRecord(a), assistantRecord("1", "", "Do"), assistantRecord("1", "end_turn", "ne.")}, map[string]progress{nonceA: ended}},
		{"a hook lets it go on", []object{userRecord(a), assistantRecord("1", "end_turn", "Half."), {"type": "user", "isMeta": true, "message": object{"content": "go on"}}, assistantRecord("2", "end_turn", "Done.")}, map[string]progress{nonceA: ended}},
		{"turn_duration", []object{userRecord(a), assistantRecord("1", "end_turn", "Done."), {"type": "system", "subtype": "turn_duration"}}, map[string]progress{nonceA: final}},
		{"the first prompt, after its turn", []object{assistantRecord("1", "end_turn", "Done."), {"type": "system", "subtype": "turn_duration"}, userRecord(a)}, map[string]progress{nonceA: ended}},
		{"and the next one", []object{assistantRecord("1", "end_turn", "Hi."), userRecord("hello"), userRecord(a)}, map[string]progress{nonceA: given}},
		{"the first of all", []object{userRecord("hello"), assistantRecord("1", "end_turn", "Hi."), userRecord(a)}, map[string]progress{nonceA: given}},
		{"another turn", []object{userRecord(a), assistantRecord("1", "end_turn", "Done."), userRecord("more"), assistantRecord("2", "end_turn", "More.")}, map[string]progress{nonceA: final}},
		{"interrupted", []object{userRecord(a), userRecord("[Request interrupted by user]"), userRecord("more")}, map[string]progress{nonceA: {given: true, interrupted: true, final: true}}},
		{"cut, and what is added when the session is resumed", []object{
			userRecord(a), assistantRecord("1", "tool_use", "Looking."),
			{"type": "assistant", "message": object{"id": "2", "model": "<synthetic>", "stop_reason": "stop_sequence", "content": "No response requested."}},
		}, map[string]progress{nonceA: {given: true, answer: "Looking."}}},
		{"a prompt about an interrupt", []object{userRecord(a), assistantRecord("1", "end_turn", "Done."), userRecord("[Request interrupted by user] is what I saw")}, map[string]progress{nonceA: final}},
		{"queued", []object{userRecord("x"), queueRecord("enqueue", a), assistantRecord("1", "end_turn", "X.")}, map[string]progress{nonceA: {}}},
		{"queued, its own turn", []object{userRecord("x"), queueRecord("enqueue", a), assistantRecord("1", "end_turn", "X."), queueRecord("dequeue", ""), userRecord(a), assistantRecord("2", "end_turn", "Done.")}, map[string]progress{nonceA: ended}},
		{"two queued, one turn", []object{queueRecord("enqueue", a), queueRecord("enqueue", b), queueRecord("dequeue", ""), queueRecord("dequeue", ""), userRecord(a), userRecord(b), assistantRecord("2", "end_turn", "Done.")}, map[string]progress{nonceA: ended, nonceB: ended}},
		{"mid-turn", []object{userRecord("x"), queueRecord("enqueue", a), queueRecord("remove", a), attachment, assistantRecord("1", "end_turn", "Done.")}, map[string]progress{nonceA: ended}},
		{"taken back", []object{userRecord("x"), queueRecord("enqueue", "a person"), queueRecord("enqueue", a), queueRecord("popAll", "a person"), queueRecord("popAll", a)}, map[string]progress{nonceA: {removed: true}}},
		{"taken back and queued again", []object{userRecord("x"), queueRecord("enqueue", a), queueRecord("popAll", a), queueRecord("enqueue", a)}, map[string]progress{nonceA: {}}},
		{"refused by a hook", []object{queueRecord("enqueue", "x"), queueRecord("dequeue", ""), userRecord("x"), blockedRecord("no", a)}, map[string]progress{nonceA: {refused: "[check]: no"}}},
		{"a hook that quotes a message", []object{blockedRecord("no\n\nOriginal prompt: x "+a, "x")}, map[string]progress{}},
		{"a tool reads it", []object{userRecord([]object{{"type": "tool_result", "content": a}})}, map[string]progress{}},
		{"a subagent is told", []object{{"type": "user", "isSidechain": true, "message": object{"content": a}}}, map[string]progress{}},
		{"a summary", []object{{"type": "user", "isCompactSummary": true, "message": object{"content": a}}}, map[string]progress{}},
		{"the agent quotes it", []object{userRecord("x"), assistantRecord("1", "end_turn", a)}, map[string]progress{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var lines []string
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for i, o := range test.records {
				o = maps.Clone(o) // the tests share some
				o["timestamp"] = start.Add(time.Duration(i) * time.Second)
				line, err := json.Marshal(o)
				must(t, err)
				lines = append(lines, string(line)+"\n")
			}
			// However it is cut into readings, the result is the same.
			whole := strings.Join(lines, "")
			for cut := 0; cut <= len(whole); cut += 1 + len(whole)/7 {
				path := filepath.Join(t.TempDir(), "t.jsonl")
				p := New(Options{})
				for _, part := range []string{whole[:cut], whole} {
					must(t, os.WriteFile(path, []byte(part), 0o600))
					p.transcripts.found(path)
				}
				got := p.transcripts.found(path)
				if len(got) != len(test.want) {
					t.Fatalf("cut at %d: got %+v, want %+v", cut, got, test.want)
				}
				for nonce, want := range test.want {
					got := got[nonce]
					for _, text := range got.texts {
						if !strings.HasPrefix(text, "do it") {
							t.Errorf("cut at %d: %q came with %s", cut, text, nonce)
						}
					}
					if len(got.texts) == 0 {
						t.Errorf("cut at %d: nothing came with %s", cut, nonce)
					}
					want.texts, want.path, want.queuedAt, want.at, want.saidAt, want.endedAt = got.texts, path, got.queuedAt, got.at, got.saidAt, got.endedAt
					timed := got.at.IsZero() != got.given && got.saidAt.IsZero() == (got.answer == "") && got.endedAt.IsZero() != got.over()
					if !reflect.DeepEqual(got, want) || !timed {
						t.Errorf("cut at %d: %s is %+v, want %+v", cut, nonce, got, want)
					}
					if got.final && got.answer != "" && !(got.at.Equal(start) && got.saidAt.Equal(start.Add(time.Second)) && got.endedAt.Equal(got.saidAt)) {
						t.Errorf("cut at %d: %s was given at %s, answered at %s, and ended at %s", cut, nonce, got.at, got.saidAt, got.endedAt)
					}
				}
			}
		})
	}
}

// A hook refuses the message that left the queue, not one that the hook quotes.
func TestSessionMessageRefusedByAHook(t *testing.T) {
	t.Parallel()
	message := func(id string) string {
		return "<cross-session-message from=\"uds:x\" from-name=\"operator\" message-id=\"" + id + "-0000\">\nhello\n</cross-session-message>"
	}
	path := filepath.Join(t.TempDir(), "t.jsonl")
	var lines []byte
	for _, o := range []object{
		queueRecord("enqueue", message(nonceA)), queueRecord("dequeue", ""), blockedRecord("no", message(nonceA)),
		queueRecord("enqueue", message(nonceB)), queueRecord("dequeue", ""), blockedRecord("no\n\nOriginal prompt: "+message(nonceA), message(nonceB)),
		queueRecord("enqueue", "x"), queueRecord("dequeue", ""), blockedRecord("no\n\nOriginal prompt: "+message("cccccccccccc"), "x"),
	} {
		line, err := json.Marshal(o)
		must(t, err)
		lines = append(append(lines, line...), '\n')
	}
	must(t, os.WriteFile(path, lines, 0o600))
	found := New(Options{}).transcripts.found(path)
	if a, b := found[nonceA].refused, found[nonceB].refused; a != "[check]: no" || !strings.HasPrefix(b, "[check]: no Original prompt: <cross-session-message ") {
		t.Errorf("refused: %q and %q", a, b)
	}
	if len(found) != 2 {
		t.Errorf("found %v", found)
	}
}

// The hook is called before the last records of the turn are in the file, with the very
// first turn even before its user record.
func TestHookBeforeTheRecords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.records()
	m := b.put("hello", notify)
	b.agent.mute = true
	b.do()
	b.want(m, ledger.Done, ledger.TaskArmed) // nothing shows that there will be a transcript
	b.agent.lags = true
	b.agent.late = []object{userRecord(typed(m).Line())}
	b.agent.stop(b.hook)
	b.notices(b.want(m, ledger.Done, ledger.TaskEnded))
}

// A message that is queued when a turn ends belongs to the next turn, even if the hook is late.
func TestHookOfAnEarlierTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.records()
	b.agent.work()
	m := b.put("hello", notify)
	b.do()
	b.agent.lags = true
	b.agent.stop(b.hook)
	b.notices()
	b.want(m, ledger.Done, ledger.TaskSent)
	b.agent.stop(b.hook)
	b.notices(b.want(m, ledger.Done, ledger.TaskEnded))
}

// A program that does not wait for its hooks begins the next turn first.
func TestLateHook(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.records()
	b.agent.work()
	m := b.put("hello", notify)
	b.do()
	b.agent.stop(nil)
	b.timing.recent = time.Minute
	b.hookWithin(time.Second) // of the turn before
	b.notices()
	b.want(m, ledger.Done, ledger.TaskSent)
	b.agent.stop(b.hook)
	b.notices(b.want(m, ledger.Done, ledger.TaskEnded))
}

// The turn of a message may end before it is known that the program took the message, so that
// only the next hook ends its task. Its answer is that of its own turn.
func TestAnswersAreOfTheirOwnTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.records()
	first := b.put("hello")
	b.do()
	b.agent.stop(nil)
	second := b.put("again")
	b.do()
	b.agent.stop(b.hook)
	for _, m := range []ledger.PaneMessage{first, second} {
		if answer := string(b.want(m, ledger.Done, ledger.TaskEnded).Answer); !strings.Contains(answer, "Done: "+Nonce(m.UUID)+`"`) {
			t.Errorf("the answer to %s is %s", m.Raw, answer)
		}
	}
}

// A text that arrived with the id of a message is compared, for each way, unless the id is in the same bytes.
func TestAltered(t *testing.T) {
	t.Parallel()
	const id = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
	handed := func(text string) string {
		return wake.Text([]wake.Message{{ID: id, Text: text}, {ID: uuid.NewString(), Text: "x"}})
	}
	line := func(o object) []byte {
		o["timestamp"] = time.Now().UTC()
		data, err := json.Marshal(o)
		must(t, err)
		return data
	}
	for way, came := range map[string]func(c *conversation, text string){
		"typed": func(c *conversation, text string) { c.line(line(userRecord("[teambridge "+Nonce(id)+"] "+text)), true) },
		"queued": func(c *conversation, text string) {
			c.line(line(queueRecord("enqueue", "[teambridge "+Nonce(id)+"] "+text)), true)
		},
		"hook": func(c *conversation, text string) { c.line(line(queueRecord("enqueue", handed(text))), true) },
		"qwen": func(c *conversation, text string) {
			text = "<cross_session_message from=\"a\" name=\"b\">\n[teambridge " + Nonce(id) + "] " + strings.ReplaceAll(text, "<", "&lt;") + "\n</cross_session_message>"
			c.chat(line(object{"type": "user", "subtype": "notification", "message": object{"parts": []object{{"text": text}}}}))
		},
	} {
		c := newConversation("t.jsonl")
		c.tail.Begin(nil, 0)
		came(c, "do </teambridge-message it")
		s := c.of(Nonce(id))
		if len(s.texts) != 1 || s.altered("do </teambridge-message it\n") {
			t.Errorf("%s: it came as %q", way, s.texts)
		}
		if !s.altered("do that") {
			t.Errorf("%s: another text was sent than %q", way, s.texts)
		}
	}
}
