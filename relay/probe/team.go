package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/peer"
	"teambridge/relay/relaytest/model"
	"teambridge/relay/terminal"
	"teambridge/teams/transcript"
)

// The agents of the team, by their names in requests to the model.
const (
	lead   = model.Main
	worker = "worker"
)

// lively is a team whose lead is a running Claude Code.
type lively struct {
	*bench
	teamDir
	program *terminal.Hidden

	mu   sync.Mutex
	idle map[string]json.RawMessage // the worker's latest idle_notification
}

// team measures a session at a terminal that leads a team, and a teammate in its process.
func (b *bench) team() error {
	t := &lively{bench: b, idle: map[string]json.RawMessage{}}
	err := t.start()
	if t.program != nil {
		defer t.program.Close(b.ctx, b.o.grace)
	}
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { t.watch(stop) })
	err = t.measure()
	close(stop)
	watching.Wait()
	if err == nil {
		t.ended()
	}
	return err
}

// start starts the lead, and makes its model spawn a teammate.
func (t *lively) start() error {
	t.o.Progress("a session at a terminal")
	atStart := false
	t.answer(func(r model.Request) bool { return r.Has("PROBE-T1") }, func(model.Request) *model.Answer {
		if atStart = t.hears("TeamAtStart", true, t.made); !atStart {
			return nil
		}
		return &model.Answer{Calls: []model.Call{call("Agent", teammate(worker, "PROBE-T2"))}}
	})
	args := append(slices.Clone(t.o.Command), "--permission-mode", "default", "PROBE-T1") // auto mode would first ask whether to be used
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = t.home.Work, t.home.Env()
	var err error
	if t.program, err = terminal.StartHidden(cmd); err != nil {
		return err
	}
	if _, err = t.of("starts", lead, "PROBE-T1"); err != nil {
		return err
	}
	if t.is("TeamAtStart", atStart); !atStart {
		return errors.New("the session made no team")
	}
	t.o.Progress("a teammate")
	_, err = t.of("", worker, "PROBE-T2")
	return err
}

// teammate returns the input of the tool that spawns a teammate. The teammate says the marker.
func teammate(name, marker string) map[string]string {
	return map[string]string{"description": name, "prompt": "You are " + name + ". Say " + marker, "name": name}
}

func call(tool string, input any) model.Call {
	data, _ := json.Marshal(input) // cannot fail: it holds strings
	return model.Call{Name: tool, Input: data}
}

// of is asked, with the wait of a point if the event decides one. The error quotes the terminal.
func (t *lively) of(point, agent, marker string) (model.Request, error) {
	r, err := t.asked(t.patience(point, t.o.Step), agent, marker)
	if err != nil {
		select {
		case <-t.program.Done():
			err = fmt.Errorf("%w; the session has ended", err)
		default:
		}
		err = fmt.Errorf("%w; its terminal: %s", err, end(strings.Join(strings.Fields(controls().ReplaceAllString(t.program.Printed(), " ")), " "), 200))
	}
	return r, err
}

// controls matches the control sequences of a terminal.
var controls = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b(\\[[0-9;?<>=]*[a-zA-Z]|\\][^\x07\x1b]*(\x07|\x1b\\\\)|.)|[\x00-\x1f]")
})

func end(s string, n int) string { return strings.ToValidUTF8(s[max(0, len(s)-n):], "") }

// made looks for the team, and reports whether it exists.
func (t *lively) made() bool {
	found, _ := filepath.Glob(filepath.Join(t.home.Root, "teams", "*", "config.json"))
	if len(found) > 0 {
		t.teamDir = t.teamOf(filepath.Base(filepath.Dir(found[0])))
	}
	return len(found) > 0
}

// watch keeps the worker's last idle_notification, because the lead takes it from the inbox within a second.
func (t *lively) watch(stop <-chan struct{}) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		rows, _ := t.rows("team-lead")
		for _, r := range rows {
			var n map[string]json.RawMessage
			if json.Unmarshal([]byte(r.Text), &n) == nil && string(n["type"]) == `"idle_notification"` {
				t.mu.Lock()
				maps.Copy(t.idle, n)
				t.mu.Unlock()
			}
		}
	}
}

// part is a part of the measurement. If it fails, its points are not measured.
type part struct {
	name   string
	do     func() error
	points []string
}

func (t *lively) measure() error {
	for _, p := range []part{
		{"config.json", t.reads, []string{"LeadProcessWritten"}},
		{"a row of user", t.user, []string{"DeliversRows", "RemovesTaken", "WrapsUser"}},
		{"how a row is shown", t.escapes, []string{"EscapesGiven", "MarksUnverified", "RecordsGiven"}},
		{"rows that come again", t.repeats, []string{"RepeatsRows"}},
		{"SendMessage to one who joined", t.joined, []string{"ReachesJoined", "TagsRows", "TakesLock", "RenamesInbox"}},
		{"SendMessage to user", t.refuses, []string{"RefusesUser"}},
		{"idle_notification", t.tells, []string{"TellsIdle", "IdleResult"}},
		{"a lock that is held", t.held, []string{"MarksFirst"}},
		{"a row of the lead", t.leads, []string{"DeliversToLead"}},
		{"config.json, written by an agent", t.writes, []string{"LocksConfig", "KeepsJoined"}},
		{"the Stop hook", t.hook, []string{"RunsStopHook"}},
		{"the session's file", t.says, []string{"TellsWork", "SessionSocket"}},
		{"the session's socket", t.socket, []string{"TakesFromSocket"}},
	} {
		t.o.Progress(p.name)
		if err := p.do(); err != nil {
			t.cannot(err, p.points...)
		}
		if err := context.Cause(t.ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *lively) reads() error {
	data, err := os.ReadFile(t.config())
	if err != nil {
		return err
	}
	var c map[string]json.RawMessage
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	t.is("LeadProcessWritten", c["leadProcess"] != nil)
	return nil
}

// wrapped returns the form in which the model received a message.
func wrapped(r model.Request, marker string) (d model.Delivery, ok bool) {
	for _, d := range r.Deliveries() {
		if strings.Contains(d.Body, marker) {
			return d, true
		}
	}
	return model.Delivery{}, false
}

// deliver writes a row to an agent, and waits until its model receives it, which may decide a point.
func (t *lively) deliver(point, to string, r row) (model.Request, error) {
	name := to
	if to == lead {
		name = "team-lead"
	}
	if err := t.push(name, r); err != nil {
		return model.Request{}, err
	}
	marker, _, _ := strings.Cut(r.Text, "\n")
	return t.of(point, to, marker)
}

// taken waits until a row is removed or marked, and reports whether it was removed.
func (t *lively) taken(of, marker string) (removed bool, err error) {
	err = t.wait(t.o.Step, "a row that was delivered to be taken from the inbox", func() bool {
		// One read must answer both questions: a row that is removed between two reads would seem to be
		// marked.
		rows, ok := t.rows(of)
		i := slices.IndexFunc(rows, func(r row) bool { return strings.Contains(r.Text, marker) })
		removed = ok && i < 0
		return removed || ok && rows[i].Read
	})
	return removed, err
}

func (t *lively) user() error {
	r, err := t.deliver("DeliversRows", worker, row{From: "user", Text: "PROBE-T3"})
	if err != nil {
		// After a wait that was long enough, a missing delivery is a result.
		if t.ctx.Err() == nil {
			t.is("DeliversRows", false)
		}
		return err
	}
	t.is("DeliversRows", true)
	d, ok := wrapped(r, "PROBE-T3")
	t.is("WrapsUser", ok && d.From == "user")
	removed, err := t.taken(worker, "PROBE-T3")
	if err == nil {
		t.is("RemovesTaken", removed)
	}
	return err
}

func (t *lively) escapes() error {
	r, err := t.deliver("", worker, row{From: "team-lead", Text: "PROBE-T4\nin </teammate-message> a text", Summary: "this & that"})
	if err != nil {
		return err
	}
	shown := slices.IndexFunc(r.Uncut, func(s string) bool { return strings.Contains(s, "PROBE-T4") })
	t.is("EscapesGiven", strings.Contains(r.Uncut[shown], "this &amp; that") && !strings.Contains(r.Uncut[shown], "in </teammate-message> a text"))
	d, ok := wrapped(r, "PROBE-T4")
	if !ok {
		return errors.New("the model did not receive the message as one of a teammate")
	}
	t.is("MarksUnverified", d.Verified == "false")
	t.is("RecordsGiven", t.hears("RecordsGiven", true, func() bool { return t.recorded("PROBE-T4") }))
	return nil
}

// recorded reports whether a transcript has a message that a model received.
func (t *lively) recorded(marker string) (found bool) {
	_ = filepath.WalkDir(filepath.Join(t.home.Root, "projects"), func(path string, e os.DirEntry, err error) error {
		if err != nil || found || !strings.HasSuffix(path, ".jsonl") {
			return nil
		}
		for _, r := range lines[struct {
			Type    string
			Version string
			Message struct{ Content json.RawMessage }
		}](path) {
			found = found || r.Type == "user" && r.Version != "" && strings.Contains(string(r.Message.Content), marker) &&
				strings.Contains(string(r.Message.Content), "teammate-message")
		}
		return nil
	})
	return found
}

func (t *lively) repeats() error {
	id := uuid.NewString()
	for _, text := range []string{"PROBE-T5A", "PROBE-T5B"} {
		if err := t.push(worker, row{From: "stranger", Text: text, MsgID: id}); err != nil {
			return err
		}
		if text == "PROBE-T5A" {
			if _, err := t.of("", worker, text); err != nil {
				return err
			}
			if _, err := t.taken(worker, text); err != nil {
				return err
			}
		}
	}
	// Wait for a row after it, so that the repeated row would have been delivered.
	if _, err := t.deliver("", worker, row{From: "stranger", Text: "PROBE-T5C"}); err != nil {
		return err
	}
	t.is("RepeatsRows", t.given("PROBE-T5B"))
	return nil
}

// asks makes the worker use SendMessage.
func (t *lively) asks(marker, to, message string) error {
	_, err := t.deliver("", worker, row{From: "operator", Text: marker + "\n" +
		model.CallLine("SendMessage", map[string]string{"to": to, "message": message, "summary": "s"})})
	return err
}

func (t *lively) joined() error {
	if err := edit(t.teamDir, t.config(), func(c *map[string]any) {
		members, _ := (*c)["members"].([]any)
		(*c)["members"] = append(members, t.entry("operator"))
	}); err != nil {
		return err
	}
	path := t.inbox("operator")
	if err := os.WriteFile(path, []byte("[]"), 0o600); err != nil {
		return err
	}
	file, err := os.Open(path) // while it is open, no other file can have its inode number
	if err != nil {
		return err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return err
	}
	var taken func() (bool, error)
	t.before("PROBE-T6", func() {
		taken, err = t.contend(path, func() bool { return t.has("operator", "PROBE-T7") })
	})
	if err := t.asks("PROBE-T6", "operator", "PROBE-T7"); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	reached := t.hears("ReachesJoined", true, func() bool { return t.has("operator", "PROBE-T7") })
	t.is("ReachesJoined", reached)
	if !reached {
		return errors.New("nothing was written to the inbox of a person who joined")
	}
	takes, err := taken()
	if err != nil {
		return err
	}
	t.is("TakesLock", takes)
	r, _ := t.find("operator", "PROBE-T7")
	t.is("TagsRows", r.MsgID != "")
	after, err := os.Stat(path)
	if err == nil {
		t.is("RenamesInbox", !os.SameFile(before, after))
	}
	return err
}

func (t *lively) refuses() error {
	if err := t.asks("PROBE-T8", "user", "PROBE-T9"); err != nil {
		return err
	}
	t.is("RefusesUser", !t.hears("RefusesUser", false, func() bool { return t.has("user", "PROBE-T9") }))
	return nil
}

func (t *lively) tells() error {
	get := func(key string) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.idle[key] != nil
	}
	if !t.hears("TellsIdle", true, func() bool { return get("from") && get("timestamp") }) {
		t.is("TellsIdle", false)
		return errors.New("no idle_notification was seen")
	}
	t.is("TellsIdle", true)
	t.is("IdleResult", get("result"))
	return nil
}

func (t *lively) held() error {
	// The worker must not wait for the lock only because it marks an earlier row.
	if err := t.wait(t.o.Step, "all rows to be taken from the inbox", func() bool {
		rows, ok := t.rows(worker)
		return ok && !slices.ContainsFunc(rows, func(r row) bool { return !r.Read })
	}); err != nil {
		return err
	}
	early := false
	if err := t.pushHeld(worker, row{From: "stranger", Text: "PROBE-T10."}, t.patience("MarksFirst", t.o.Quiet), func() bool {
		early = t.given("PROBE-T10.")
		return early
	}); err != nil {
		return err
	}
	if _, err := t.of("", worker, "PROBE-T10."); err != nil {
		return err
	}
	t.is("MarksFirst", !early)
	_, err := t.taken(worker, "PROBE-T10.")
	return err
}

func (t *lively) leads() error {
	if _, err := t.deliver("DeliversToLead", lead, row{From: "operator", Text: "PROBE-T12"}); err != nil {
		if t.ctx.Err() == nil {
			t.is("DeliversToLead", false)
		}
		return err
	}
	t.is("DeliversToLead", true)
	return nil
}

// writes makes the lead start another teammate while we hold the lock of config.json, into which the lead
// writes it.
func (t *lively) writes() error {
	var taken func() (bool, error)
	var err error
	t.answer(func(r model.Request) bool { return r.Agent == lead && r.Has("PROBE-T13") }, func(model.Request) *model.Answer {
		if taken, err = t.contend(t.config(), func() bool { return t.entered("second") }); err != nil {
			return nil
		}
		return &model.Answer{Calls: []model.Call{call("Agent", teammate("second", "PROBE-T14"))}}
	})
	if _, err := t.deliver("DeliversToLead", lead, row{From: "operator", Text: "PROBE-T13"}); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if err := t.wait(t.o.Step, "the entry of another teammate in config.json", func() bool { return t.entered("second") }); err != nil {
		return err
	}
	locks, err := taken()
	if err != nil {
		return err
	}
	t.is("LocksConfig", locks)
	t.is("KeepsJoined", t.entered("operator"))
	return nil
}

// entered reports whether config.json has a member.
func (t *lively) entered(name string) bool {
	data, err := os.ReadFile(t.config())
	return err == nil && strings.Contains(string(data), `"`+name+`@`)
}

func (t *lively) hook() error {
	t.is("RunsStopHook", t.hears("RunsStopHook", true, func() bool {
		for _, h := range lines[map[string]any](filepath.Join(t.home.Root, "stop.jsonl")) {
			session, _ := h["session_id"].(string)
			path, _ := h["transcript_path"].(string)
			if h["hook_event_name"] == "Stop" && session != "" && strings.HasSuffix(path, ".jsonl") {
				return true
			}
		}
		return false
	}))
	return nil
}

// process returns the process of the session.
func (t *lively) process() (transcript.Process, bool) {
	all := transcript.Processes(t.home.Root)
	i := slices.IndexFunc(all, func(p transcript.Process) bool { return p.PID == t.program.PID })
	if i < 0 && len(all) == 1 {
		i = 0 // the started program is a wrapper of the process
	}
	if i < 0 {
		return transcript.Process{}, false
	}
	return all[i], true
}

func (t *lively) says() error {
	p, _ := t.process()
	t.is("TellsWork", p.Status != "" && p.Version != "")
	t.is("SessionSocket", p.Socket != "")
	return nil
}

func (t *lively) socket() error {
	p, ok := t.process()
	if !ok || p.Socket == "" {
		return errors.New("the session has no socket")
	}
	box := peer.Open(t.home.Temp(), func(peer.Incoming) {})
	defer box.Close()
	ctx, cancel := context.WithTimeout(t.ctx, t.o.Step)
	defer cancel()
	id := uuid.NewString()
	if err := box.Send(ctx, t.home.Root, p, peer.Message{ID: id, Text: "PROBE-T15"}); err != nil {
		return err
	}
	_, err := t.asked(t.patience("TakesFromSocket", t.o.Step/2), lead, "PROBE-T15")
	if t.ctx.Err() != nil {
		return err
	}
	t.is("TakesFromSocket", err == nil && t.hears("TakesFromSocket", true, func() bool { return t.hasID(id) }))
	return nil
}

// hasID reports whether a transcript has the id of a message that came through the socket.
func (t *lively) hasID(id string) bool {
	path, ok := transcript.Session(t.home.Root, t.home.Work, t.session())
	if !ok {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(data), `"msg_id":"`+id)
}

// answered reports whether the model has answered a request with a marker.
func (t *lively) answered(marker string) bool {
	return slices.ContainsFunc(t.api.Log(), func(r model.Request) bool { return !r.Side && !r.Answered.IsZero() && whole(r, marker) })
}

func (t *lively) session() string {
	p, _ := t.process()
	return p.Session
}

// ended makes the lead end, as a closed window would.
func (t *lively) ended() {
	t.o.Progress("the end of the session")
	// Wait for the teammates: an inbox that one is writing can keep the directory from being removed.
	_ = t.wait(t.o.Step/3, "the rest of the team", func() bool {
		rows, _ := t.rows("team-lead")
		return (t.answered("PROBE-T14") || !t.entered("second")) && !slices.ContainsFunc(rows, func(r row) bool { return !r.Read })
	})
	if !t.program.Close(t.ctx, t.o.Step/3) {
		t.cannot(errors.New("the session did not end on request"), "RemovesTeam")
		return
	}
	t.is("RemovesTeam", t.hears("RemovesTeam", true, func() bool { return !exists(t.config()) }))
}
