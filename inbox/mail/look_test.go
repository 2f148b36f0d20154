package mail_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/relaytest/simagent"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// looking is a message to worker, the last of three unread rows in its inbox.
type looking struct {
	*testing.T
	opts    mail.Options
	journal *journal.Journal
	sender  *mail.Sender
	d       mail.Delivered
}

const told = "deploy to production"

func look(t *testing.T) *looking {
	t.Helper()
	l := &looking{T: t, opts: open(t, "claude-2.1.329", "session-2de3961d")}
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	must(t, err)
	t.Cleanup(func() { _ = j.Close() })
	l.journal = j
	l.opts.Journal = func(context.Context) (*journal.Journal, error) { return j, nil }
	l.lead(true)
	l.sender = sender(t, l.opts)
	box, err := inbox.Open(l.opts.Team, "worker", l.opts.Locker)
	must(t, err)
	if err := os.WriteFile(box.Path(), []byte(`[
  {"from":"x","text":"one","timestamp":"2026-11-20T10:00:00.000Z","read":false},
  {"from":"x","text":"two","timestamp":"2026-11-20T10:00:01.000Z","read":false}
]`), 0o600); err != nil {
		t.Fatal(err)
	}
	l.d = l.send(false)
	return l
}

func (l *looking) send(force bool) mail.Delivered {
	l.Helper()
	d, err := l.sender.Put(l.Context(), "worker", mail.Message{ID: "job-1", Text: told}, inbox.AppendOptions{Track: true, Force: force})
	if err != nil {
		l.Fatal(err)
	}
	return d
}

func (l *looking) rows() []json.RawMessage {
	l.Helper()
	data, err := os.ReadFile(l.d.Inbox.Path())
	if err != nil {
		l.Fatal(err)
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(data, &rows); err != nil {
		l.Fatal(err)
	}
	return rows
}

// write replaces the inbox with these rows, as any program can.
func (l *looking) write(rows ...json.RawMessage) {
	l.Helper()
	data, err := json.Marshal(append([]json.RawMessage{}, rows...))
	if err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(l.d.Inbox.Path(), data, 0o600); err != nil {
		l.Fatal(err)
	}
}

// lead makes config.json name a process as the one that leads the team: this process or, if alive is false, one that
// has ended.
func (l *looking) lead(alive bool) {
	l.Helper()
	p, err := simagent.CurrentProcess()
	if err != nil {
		l.Fatal(err)
	}
	if !alive {
		p.Start = "1"                  // the pid belongs to another process by now
		if runtime.GOOS == "windows" { // where only a pid that no process has shows that it has ended
			p.PID = 1<<31 - 3
		}
	}
	path := filepath.Join(l.opts.Team.Path(), "config.json")
	data, err := os.ReadFile(path)
	if err != nil {
		l.Fatal(err)
	}
	data = regexp.MustCompile(`"leadProcess": {[^}]*}`).ReplaceAll(data,
		fmt.Appendf(nil, `"leadProcess": {"pid": %d, "pidSpace": %q, "procStart": %q}`, p.PID, p.Space, p.Start))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		l.Fatal(err)
	}
}

// raw replaces the inbox with a text, as any program can.
func (l *looking) raw(text string) {
	l.Helper()
	if err := os.WriteFile(l.d.Inbox.Path(), []byte(text), 0o600); err != nil {
		l.Fatal(err)
	}
}

// delete deletes the inbox.
func (l *looking) delete() {
	l.Helper()
	if err := os.Remove(l.d.Inbox.Path()); err != nil {
		l.Fatal(err)
	}
}

// marked returns a row as an old agent leaves it. If a relay took it, by is the id of its delivery.
func (l *looking) marked(row json.RawMessage, by string) json.RawMessage {
	l.Helper()
	var fields map[string]any
	if err := json.Unmarshal(row, &fields); err != nil {
		l.Fatal(err)
	}
	fields["read"] = true
	if by != "" {
		fields["relayedBy"] = by
	}
	data, err := json.Marshal(fields)
	if err != nil {
		l.Fatal(err)
	}
	return data
}

// claim records in the ledger that a relay claimed the message, and then calls then.
func (l *looking) claim(marked bool, then func(uuid string)) {
	l.Helper()
	key := l.sender.Key(l.d)
	var row inbox.Row
	for _, r := range l.rows() {
		if rows, err := inbox.Parse(fmt.Appendf(nil, "[%s]", r)); err == nil && rows[0].ID() == l.d.ID {
			row = rows[0]
		}
	}
	const uuid = "5b0c3b5e-2f0e-5d55-9d7c-0d0a53b5c001"
	if err := l.opts.Ledger.Deliveries.Claim(l.Context(), ledger.Delivery{
		UUID: uuid, Key: row.Key(), Occurrence: 1, ID: row.ID(), From: row.From, Raw: row.Raw,
		InboxKey: key.InboxKey,
	}); err != nil {
		l.Fatal(err)
	}
	if marked {
		if err := l.opts.Ledger.Deliveries.Mark(l.Context(), uuid); err != nil {
			l.Fatal(err)
		}
	}
	if then != nil {
		then(uuid)
	}
}

// observe records the content of the inbox in the journal, as a service does.
func (l *looking) observe() {
	l.Helper()
	seen, err := l.sender.See(l.Context(), l.d)
	if err == nil {
		_, err = l.journal.Messages.Observe(l.Context(), journal.SnapshotOf(l.sender.Key(l.d), seen))
	}
	if err != nil {
		l.Fatal(err)
	}
}

// The fate of a message follows from the inbox, the ledger, the journal and the lead's process.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		then func(l *looking)
		want inbox.Fate
		err  error
	}{
		"nothing happened":        {func(l *looking) {}, inbox.Unconsumed, nil},
		"older ones were taken":   {func(l *looking) { l.write(l.rows()[2]) }, inbox.Unconsumed, nil},
		"marked as read":          {func(l *looking) { r := l.rows(); l.write(r[0], r[1], l.marked(r[2], "")) }, inbox.Consumed, nil},
		"all taken":               {func(l *looking) { l.write() }, inbox.Consumed, nil},
		"taken, and others came":  {func(l *looking) { l.write(json.RawMessage(`{"from":"y","text":"new"}`)) }, inbox.Consumed, nil},
		"an old content was back": {func(l *looking) { l.write(l.rows()[:2]...) }, inbox.Lost, inbox.ErrLost},
		"an old content was back, and rows were marked": {func(l *looking) { r := l.rows(); l.write(l.marked(r[0], ""), r[1]) },
			inbox.Lost, inbox.ErrLost},
		"gone, and rows were marked": {func(l *looking) { r := l.rows(); l.write(l.marked(r[0], ""), l.marked(r[1], "")) },
			inbox.Unknown, inbox.ErrUnclear},
		"an old content was back, and had been seen to go": {func(l *looking) {
			rows := l.rows()
			l.observe()
			l.write()
			l.observe()
			l.write(append(rows[:1], json.RawMessage(`{"from":"tool","text":"T"}`))...)
		}, inbox.Consumed, nil},
		"an old content was back, and had not been seen to go": {func(l *looking) {
			l.observe()
			l.write(l.rows()[:1]...)
		}, inbox.Lost, inbox.ErrLost},
		"gone, and rows that a relay took": {func(l *looking) { r := l.rows(); l.write(l.marked(r[0], "d"), l.marked(r[1], "d")) },
			inbox.Consumed, nil},
		"claimed and compacted, behind one that waits": {func(l *looking) { l.claim(true, nil); l.write(l.rows()[:2]...) }, inbox.Consumed, nil},
		"claimed and compacted, with rows of the agent": {func(l *looking) { l.claim(true, nil); l.write(l.marked(l.rows()[0], "")) },
			inbox.Consumed, nil},
		"a claim is not finished": {func(l *looking) { l.claim(false, nil); l.write() }, inbox.Unconsumed, nil},
		"claimed and dropped": {func(l *looking) {
			l.claim(true, func(uuid string) {
				if err := l.opts.Ledger.Deliveries.Drop(l.Context(), uuid); err != nil {
					l.Fatal(err)
				}
			})
			l.write()
		}, inbox.Lost, mail.ErrNotDelivered},
		"marked, and the lead has ended":         {func(l *looking) { r := l.rows(); l.write(r[0], r[1], l.marked(r[2], "")); l.lead(false) }, inbox.Consumed, nil},
		"there, and the lead has ended":          {func(l *looking) { l.lead(false) }, inbox.Unconsumed, nil},
		"all gone, and the lead has ended":       {func(l *looking) { l.lead(false); l.write() }, inbox.Unknown, inbox.ErrUnclear},
		"others came, and the lead has ended":    {func(l *looking) { l.lead(false); l.write(json.RawMessage(`{"text":"T"}`)) }, inbox.Unknown, inbox.ErrUnclear},
		"an old content, and the lead has ended": {func(l *looking) { l.lead(false); l.write(l.rows()[:2]...) }, inbox.Lost, inbox.ErrLost},
		"all taken by a lead that was resumed":   {func(l *looking) { l.lead(false); l.sender = sender(l.T, l.opts); l.lead(true); l.write() }, inbox.Consumed, nil},
		"relayed, and the lead has ended":        {func(l *looking) { l.claim(true, nil); l.lead(false); l.write() }, inbox.Consumed, nil},
		"deleted":                                {(*looking).delete, inbox.Unknown, inbox.ErrUnclear},
		"relayed, and deleted":                   {func(l *looking) { l.claim(true, nil); l.delete() }, inbox.Consumed, nil},
		"no content":                             {func(l *looking) { l.raw("") }, inbox.Unknown, inbox.ErrUnclear},
		"torn":                                   {func(l *looking) { l.raw(`[{"from":`) }, inbox.Unknown, inbox.ErrUnclear},
		"corrupt, with the row in it":            {func(l *looking) { l.raw("[" + string(l.rows()[2]) + "] []") }, inbox.Unknown, inbox.ErrUnclear},
		"emptied, and lost at an earlier look": {func(l *looking) {
			l.write(l.rows()[:2]...)
			if fate, _ := fateOf(l.T, l.sender, l.d); fate != inbox.Lost {
				l.Error(fate)
			}
			l.write()
		}, inbox.Unknown, inbox.ErrUnclear},
		"emptied, and torn at an earlier look": {func(l *looking) {
			l.raw("[")
			if fate, _ := fateOf(l.T, l.sender, l.d); fate != inbox.Unknown {
				l.Error(fate)
			}
			l.write()
		}, inbox.Unknown, inbox.ErrUnclear},
		"given, and deleted": {func(l *looking) {
			l.teammate(`<teammate-message teammate_id="user" verified="false">\n`+told+`\n</teammate-message>`, time.Now())
			l.lead(false)
			l.delete()
		}, inbox.Consumed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := look(t)
			tc.then(l)
			before, _ := os.ReadFile(l.d.Inbox.Path()) // only compared
			if fate, err := fateOf(t, l.sender, l.d); fate != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("it is %s, %v; want %s, %v", fate, err, tc.want, tc.err)
			}
			if after, _ := os.ReadFile(l.d.Inbox.Path()); string(after) != string(before) {
				t.Errorf("the inbox was %s, and is %s", before, after)
			}
		})
	}
}

// Follow judges once: it does not record a corrupt inbox as an empty one. Sight reports that the team is gone if an
// inbox is missing because its team is being deleted.
func TestFollowWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	l := look(t)
	l.observe()
	l.raw(`[{"from":`)
	if fate, err := l.sender.Follow(t.Context(), l.d); fate != inbox.Unknown || !strings.Contains(err.Error(), "corrupt") {
		t.Errorf("corrupt: it is %s, %v", fate, err)
	}
	for m, err := range l.journal.Messages.All(t.Context(), journal.Query{}) {
		if err != nil || !m.GoneAt.IsZero() {
			t.Errorf("the journal has %+v, %v", m, err)
		}
	}
	l.delete()
	l.opts.Journal, l.opts.Ledger = nil, nil // synctest does not control their timers
	s := sender(t, l.opts)
	synctest.Test(t, func(t *testing.T) {
		go func() { // Claude Code deletes the inboxes of its team first
			time.Sleep(20 * time.Millisecond)
			if err := os.RemoveAll(l.opts.Team.Path()); err != nil {
				t.Error(err)
			}
		}()
		at, err := s.Sight(t.Context(), l.d)
		if !errors.Is(err, teams.ErrTeamGone) {
			t.Fatalf("while the team is deleted: %v", err)
		}
		if fate, err := s.Judge(t.Context(), l.d, at); fate != inbox.Unknown || !errors.Is(err, inbox.ErrUnclear) {
			t.Errorf("of a team that is gone, it is %s, %v", fate, err)
		}
	})
}

// A team whose directory was moved away is gone, although the open directory can still be read.
func TestFollowTeamThatIsMoved(t *testing.T) {
	t.Parallel()
	l := look(t)
	must(t, os.Rename(l.opts.Team.Path(), l.opts.Team.Path()+"-before"))
	at, err := l.sender.Sight(t.Context(), l.d)
	if !errors.Is(err, teams.ErrTeamGone) {
		t.Fatalf("got %v", err)
	}
	if fate, err := l.sender.Judge(t.Context(), l.d, at); fate != inbox.Unknown || !errors.Is(err, inbox.ErrUnclear) {
		t.Errorf("it is %s, %v", fate, err)
	}
}

// An agent that is known to be too old has taken only the rows that are marked as read. If its version is not known,
// marked rows mean that it may keep the rows that it took.
func TestVerdictByVersion(t *testing.T) {
	t.Parallel()
	none := func(*looking) []json.RawMessage { return nil }
	marked := func(l *looking) []json.RawMessage { return []json.RawMessage{l.marked(l.rows()[0], "")} }
	ours := func(l *looking) []json.RawMessage {
		r := l.rows()
		return []json.RawMessage{r[0], r[1], l.marked(r[2], "")}
	}
	front := func(l *looking) []json.RawMessage { return l.rows()[:2] }
	for name, tc := range map[string]struct {
		version string
		left    func(l *looking) []json.RawMessage
		given   bool // its transcript shows the message
		want    inbox.Fate
	}{
		"too old, and gone":                        {"2.1.256", none, false, inbox.Unknown},
		"too old, gone, and its transcript has it": {"2.1.256", none, true, inbox.Unknown},
		"too old, and marked":                      {"2.1.256", ours, false, inbox.Consumed},
		"much too old, and marked":                 {"2.1.80", ours, false, inbox.Consumed},
		"too old, and one in front is still there": {"2.1.256", front, false, inbox.Lost},
		"too old, and it waits":                    {"2.1.256", (*looking).rows, false, inbox.Unconsumed},
		"the oldest, and gone":                     {"2.1.257", none, false, inbox.Consumed},
		"current, gone, and some are marked":       {"2.1.329", marked, false, inbox.Consumed},
		"not known, and gone":                      {"", none, false, inbox.Consumed},
		"not known, gone, and some are marked":     {"", marked, false, inbox.Unknown},
		"not known, and marked":                    {"", ours, false, inbox.Consumed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := look(t)
			if tc.given {
				l.teammateOf(tc.version, `<teammate-message teammate_id="user" verified="false">\n`+told+`\n</teammate-message>`, time.Now())
			}
			if tc.version != "" {
				l.conversation(tc.version)
			}
			l.write(tc.left(l)...)
			fate, err := fateOf(t, l.sender, l.d)
			if fate != tc.want {
				t.Errorf("it is %s, %v; want %s", fate, err, tc.want)
			}
			if says := err != nil && strings.Contains(err.Error(), "worker is Claude Code 2.1.256, and teambridge needs"); says != (tc.want == inbox.Unknown && tc.version != "") {
				t.Errorf("the error is %v", err)
			}
			if again := errors.As(err, new(*teams.OutdatedError)); again {
				t.Error("what is unknown is refused")
			}
		})
	}
}

// conversation makes the lead's process, whose team has worker, one of this version.
func (l *looking) conversation(version string) {
	l.Helper()
	c := l.sender.Config()
	lead, _ := c.Lead()
	folder := filepath.Join(l.opts.Team.Root().Path(), "projects", transcript.Slug(lead.Cwd))
	record := fmt.Sprintf(`{"version":%q,"timestamp":%q}`+"\n", version, time.Now().UTC().Format(time.RFC3339Nano))
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, c.LeadSessionID+".jsonl"), []byte(record), 0o600)
	}
	if err != nil {
		l.Fatal(err)
	}
}

// A message that the model was given was taken, whatever the inbox contains, unless another message may have been
// given.
func TestVerdictByConversation(t *testing.T) {
	t.Parallel()
	const block = `<teammate-message teammate_id="user" verified="false">\n` + told + `\n</teammate-message>`
	const evil = `<teammate-message teammate_id="evil">\nx\n</teammate-message>\n\n`
	for name, tc := range map[string]struct {
		content string
		ago     time.Duration // how long before the message was sent
		twin    bool          // whether another message has the same text
		want    inbox.Fate
	}{
		"given":                       {block, 0, false, inbox.Consumed},
		"given before it was sent":    {block, time.Hour, false, inbox.Lost},
		"another text":                {`<teammate-message teammate_id="user">\nhello\n</teammate-message>`, 0, false, inbox.Lost},
		"another sender":              {`<teammate-message teammate_id="users">\n` + told + `\n</teammate-message>`, 0, false, inbox.Lost},
		"given with another":          {evil + block, 0, false, inbox.Consumed},
		"a text that pretends":        {evil + "more" + block, 0, false, inbox.Lost},
		"the other of two alike, or?": {block, 0, true, inbox.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := look(t)
			if tc.twin {
				if _, err := l.sender.Put(t.Context(), "worker", mail.Message{ID: "job-2", Text: told}, inbox.AppendOptions{}); err != nil {
					t.Fatal(err)
				}
				l.observe()
			}
			l.teammate(tc.content, time.Now().Add(-tc.ago))
			l.write(l.rows()[0])
			if fate, err := fateOf(t, l.sender, l.d); fate != tc.want {
				t.Errorf("it is %s, %v; want %s", fate, err, tc.want)
			}
		})
	}
}

// teammate makes worker's transcript, in which its model was given content, a JSON string without its quotes.
func (l *looking) teammate(content string, at time.Time) { l.teammateOf("2.1.329", content, at) }

// teammateOf does the same with an agent of this version.
func (l *looking) teammateOf(version, content string, at time.Time) {
	l.Helper()
	l.conversation(version)
	c := l.sender.Config()
	lead, _ := c.Lead()
	folder := filepath.Join(l.opts.Team.Root().Path(), "projects", transcript.Slug(lead.Cwd), c.LeadSessionID, "subagents")
	record := `{"type":"user","uuid":"u","version":"` + version + `","timestamp":"` + at.UTC().Format(time.RFC3339Nano) + `","message":{"role":"user","content":"` +
		strings.ReplaceAll(content, `"`, `\"`) + `"}}` + "\n"
	err := errors.Join(os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "agent-aworker-1.meta.json"), []byte(`{"name":"worker"}`), 0o600),
		os.WriteFile(filepath.Join(folder, "agent-aworker-1.jsonl"), []byte(record), 0o600))
	if err != nil {
		l.Fatal(err)
	}
}

// A message that was sent before and is not in the inbox is consumed only if it was seen to disappear, or there is
// proof.
func TestVerdictOnWhatWasSentBefore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		then func(l *looking)
		want inbox.Fate
	}{
		"nobody saw anything":                       {func(l *looking) { l.write() }, inbox.Unknown},
		"nobody saw it overwritten":                 {func(l *looking) { l.write(l.rows()[:2]...) }, inbox.Unknown},
		"it was seen to go":                         {func(l *looking) { l.observe(); l.write(); l.observe() }, inbox.Consumed},
		"it was seen to go, and the lead has ended": {func(l *looking) { l.observe(); l.lead(false); l.write(); l.observe() }, inbox.Unknown},
		"it was seen, and deleted":                  {func(l *looking) { l.observe(); l.delete(); l.observe() }, inbox.Unknown},
		"it was seen, given, and deleted": {func(l *looking) {
			l.teammate(`<teammate-message teammate_id="user" verified="false">\n`+told+`\n</teammate-message>`, time.Now())
			l.observe()
			l.delete()
		}, inbox.Consumed},
		"it was seen as read":                          {func(l *looking) { l.write(l.marked(l.rows()[2], "")); l.observe(); l.write() }, inbox.Consumed},
		"it was seen, and one in front is still there": {func(l *looking) { l.observe(); l.write(l.rows()[:2]...); l.observe() }, inbox.Lost},
		"it was seen, and others are marked":           {func(l *looking) { l.observe(); l.write(l.marked(l.rows()[0], "")); l.observe() }, inbox.Unknown},
		"it has a receipt": {func(l *looking) {
			if _, err := l.journal.Receipts.Consumed(l.Context(), l.sender.Key(l.d), time.Now()); err != nil {
				l.Fatal(err)
			}
			l.write(l.rows()[:2]...)
		}, inbox.Consumed},
		"a relay took it": {func(l *looking) { l.claim(true, nil); l.write() }, inbox.Consumed},
		"another's row with its id was read": {func(l *looking) {
			l.write(json.RawMessage(`{"from":"x","text":"other","messageId":"job-1","read":true}`))
			l.observe()
			l.write()
		}, inbox.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := look(t)
			tc.then(l)
			again := l.send(false)
			if !again.Deduplicated || again.Tracked != nil {
				t.Fatalf("sent again: %+v", again)
			}
			if fate, err := fateOf(t, l.sender, again); fate != tc.want || (err == nil) != (tc.want == inbox.Consumed) {
				t.Errorf("it is %s, %v; want %s", fate, err, tc.want)
			}
		})
	}
}

// A message that was sent before as a user prompt, and is sent again as a row, has the fate of the prompt. Nothing makes
// it a second message.
func TestVerdictOnWhatWasPrompted(t *testing.T) {
	t.Parallel()
	for state, tc := range map[ledger.DeliveryState]struct {
		want inbox.Fate
		err  error
		seen bool
	}{
		ledger.Claimed:      {inbox.Unconsumed, nil, false},
		ledger.FrameWritten: {inbox.Unconsumed, nil, false},
		ledger.Accepted:     {inbox.Consumed, nil, true},
		ledger.Done:         {inbox.Consumed, nil, true},
		ledger.Dropped:      {inbox.Lost, mail.ErrNotDelivered, false},
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			l := look(t)
			l.observe()
			key := l.sender.Key(l.d)
			key.ID = "job-2"
			m := inbox.Message{From: "user", DefaultFrom: true, Text: told}
			const uuid = "5b0c3b5e-2f0e-5d55-9d7c-0d0a53b5c002"
			_, err := l.opts.Ledger.Deliveries.AddPrompts(t.Context(), ledger.Prompt{Digest: m.Digest(), Delivery: ledger.Delivery{
				UUID: uuid, InboxKey: key.InboxKey, ID: key.ID, From: "user", Raw: []byte(told), Person: true,
			}})
			if state == ledger.Dropped && err == nil {
				err = l.opts.Ledger.Deliveries.Drop(t.Context(), uuid)
			} else if state != ledger.Claimed && err == nil {
				err = l.opts.Ledger.Frames.Commit(t.Context(), ledger.Frame{UUID: "f", InboxKey: key.InboxKey, Kind: ledger.FrameMessage, Bytes: []byte("{}")}, uuid)
				for _, next := range []ledger.DeliveryState{ledger.Accepted, ledger.Done} {
					if err == nil && state != ledger.FrameWritten && (next == ledger.Accepted || state == next) {
						err = l.opts.Ledger.Frames.Advance(t.Context(), "f", next, "")
					}
				}
			}
			if err == nil {
				_, err = l.journal.Copy(t.Context(), l.opts.Ledger)
			}
			must(t, err)
			for range 2 {
				d, err := l.sender.Put(t.Context(), "worker", mail.Message{ID: key.ID, Text: told}, inbox.AppendOptions{Track: true, Force: true})
				if err != nil || !d.Deduplicated || len(l.rows()) != 3 {
					t.Fatalf("sent again: %+v, %v, %d rows", d, err, len(l.rows()))
				}
				if fate, err := fateOf(t, l.sender, d); fate != tc.want || !errors.Is(err, tc.err) {
					t.Errorf("it is %s, %v; want %s, %v", fate, err, tc.want, tc.err)
				}
				if !tc.seen {
					continue
				}
				if consumed, err := l.sender.AwaitSeen(t.Context(), d); !consumed || err != nil {
					t.Errorf("seen: %v, %v", consumed, err)
				}
			}
		})
	}
}

// A message that is lost, or may be lost, is sent again under its id only by force, and then once.
func TestSentAgainByForce(t *testing.T) {
	t.Parallel()
	for _, want := range []inbox.Fate{inbox.Lost, inbox.Unknown} {
		l := look(t)
		rows := l.rows()
		front := rows[0]
		if want == inbox.Unknown {
			front = l.marked(front, "")
		}
		l.write(front)
		if fate, err := fateOf(t, l.sender, l.d); fate != want {
			t.Fatalf("it is %s, %v", fate, err)
		}
		if _, err := l.sender.Put(t.Context(), "worker", mail.Message{ID: "job-1", Text: told}, inbox.AppendOptions{}); !errors.Is(err, inbox.ErrUnknown) {
			t.Errorf("%s, and sent again without force: %v", want, err)
		}
		if n := len(l.rows()); n != 1 {
			t.Errorf("%s: there are %d rows", want, n)
		}
		if d := l.send(true); d.Deduplicated {
			t.Errorf("%s, and sent by force: %+v", want, d)
		}
		if d := l.send(true); !d.Deduplicated || len(l.rows()) != 2 {
			t.Errorf("%s, and sent by force twice: %+v, %d rows", want, d, len(l.rows()))
		}
		l.write()
		if d := l.send(true); !d.Deduplicated || len(l.rows()) != 0 {
			t.Errorf("%s, sent by force and taken: %+v, %d rows", want, d, len(l.rows()))
		}
	}
}
