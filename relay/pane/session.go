package pane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/peer"
	"teambridge/relay/tmux"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// SessionTeam is the name of the team that the sessions of Claude Code form that are in no other team.
const SessionTeam = ledger.SessionTeam

// SessionExpire is how long a message waits for a session before it has failed as not sent.
const SessionExpire = 24 * time.Hour

// Session is the profile of a session: it has a socket, and no screen.
const Session tmux.Profile = "session"

// IsSession reports whether it is a session, which takes messages on its own socket, and no pane.
func (p Pane) IsSession() bool { return p.Team == SessionTeam }

// Sessions returns the sessions that messages can be sent to, sorted by name: those that are
// in no team and that no relay runs, and have a socket or the waiting hook. A session that something was sent to before has
// the name that it had then.
func (p *Panes) Sessions(ctx context.Context) ([]Pane, error) {
	root := p.opts.Root
	living, err := root.Sessions(ctx)
	if err != nil && living == nil {
		return nil, err
	}
	known, err := p.KnownSessions(ctx)
	if err != nil {
		return nil, err
	}
	ours := map[int]bool{}
	if p.opts.Ledger != nil {
		relayed, err := p.opts.Ledger.Sessions(ctx, root.Path())
		if err != nil {
			return nil, err
		}
		for _, s := range relayed {
			ours[s.PID] = s.PID != 0
		}
	}
	var list []Pane
	for _, s := range living {
		process, by := ReachOf(p.opts.State, s.Process)
		if s.Team != "" || by == Nowhere || ours[s.PID] {
			continue
		}
		list = append(list, sessionAmong(known, root.Path(), process))
	}
	for _, s := range p.opts.Homes.Processes() {
		if p.reach(s) != Nowhere {
			list = append(list, sessionAmong(known, root.Path(), s))
		}
	}
	slices.SortStableFunc(list, func(a, b Pane) int { return cmp.Compare(a.Inbox, b.Inbox) })
	return list, nil
}

// Around returns the sessions that live, and those that have ended while messages to them, or what they wrote to the person,
// wait, sorted by name.
func (p *Panes) Around(ctx context.Context) ([]Pane, error) {
	list, err := p.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	known, err := p.KnownSessions(ctx)
	if err != nil {
		return nil, err
	}
	if len(known) == 0 {
		return list, nil
	}
	unread, err := p.unread(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		if slices.ContainsFunc(list, func(s Pane) bool { return s.InboxKey == k.InboxKey }) {
			continue
		}
		if open, err := p.opts.Ledger.PaneMessages(ctx, k.InboxKey); err != nil {
			return nil, err
		} else if len(open) > 0 || unread[k.Inbox] {
			list = append(list, k)
		}
	}
	slices.SortStableFunc(list, func(a, b Pane) int { return cmp.Compare(a.Inbox, b.Inbox) })
	return list, nil
}

// Processes returns an opaque text that changes whenever Claude Code writes the file of a process, or another program begins or ends a
// turn.
func (p *Panes) Processes() string {
	var all strings.Builder
	files, _ := os.ReadDir(filepath.Join(p.opts.Root.Path(), "sessions")) // none, if it cannot be read
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			fmt.Fprintln(&all, f.Name(), info.ModTime().UnixNano(), info.Size())
		}
	}
	for _, s := range p.opts.Homes.Processes() {
		fmt.Fprintln(&all, s.PID, s.ProcStart, s.Session, s.Entrypoint, s.Status, s.Changed)
	}
	return all.String()
}

// KnownSessions returns the sessions that something was sent to, alive or not, sorted by name. Without a ledger
// there are none.
func (p *Panes) KnownSessions(ctx context.Context) (list []Pane, err error) {
	if p.opts.Ledger == nil {
		return nil, nil
	}
	all, err := p.opts.Ledger.Panes(ctx, p.opts.Root.Path())
	for _, one := range all {
		if one.Team == SessionTeam {
			list = append(list, paneOf(one))
		}
	}
	return list, err
}

// SessionName is the name of a session as a member, given the name that it has and its id. No session can pass for the person
// or for [Stranger].
func SessionName(name, id string) string {
	if teams.CheckName("session", name) == nil && name != mail.User && name != Stranger {
		return name
	}
	return id
}

// SessionError says that a name is that of no session that can be written to, or of several.
type SessionError struct {
	Name     string
	Sessions []Pane // all there are, or those that have the name
	Several  bool
}

func (e *SessionError) Error() string {
	if e.Several {
		return fmt.Sprintf("%d sessions are called %q", len(e.Sessions), e.Name)
	}
	return fmt.Sprintf("no session that takes messages is called %q", e.Name)
}

// Choices are the names of the sessions, or their ids if they have one name.
func (e *SessionError) Choices() (list []string) {
	for _, s := range e.Sessions {
		if e.Several {
			list = append(list, s.Ref.ID)
		} else {
			list = append(list, s.Inbox)
		}
	}
	return list
}

// NoSessionError says that a member has no process of its own with a session that takes messages.
type NoSessionError struct{ Team, Member string }

func (e *NoSessionError) Error() string {
	return fmt.Sprintf("%s@%s has no session of its own that takes messages", e.Member, e.Team)
}

// SessionOf returns the session of the process that a member of a team has for itself. The errors are *[NoSessionError], and
// those of [teams.Team.Resolve].
func (p *Panes) SessionOf(ctx context.Context, t *teams.Team, member string) (Pane, error) {
	name, err := t.Resolve(ctx, member)
	if err != nil {
		return Pane{}, err
	}
	living, err := p.opts.Root.Sessions(ctx)
	if err != nil && living == nil {
		return Pane{}, err
	}
	known, err := p.KnownSessions(ctx)
	if err != nil {
		return Pane{}, err
	}
	for _, s := range living {
		process, by := ReachOf(p.opts.State, s.Process)
		if s.Team == t.Name() && s.Member == name && by != Nowhere {
			return sessionAmong(known, p.opts.Root.Path(), process), nil
		}
	}
	return Pane{}, &NoSessionError{Team: t.Name(), Member: name}
}

// sessionAmong is the session of a process, under the name that it had before, if it is known.
func sessionAmong(known []Pane, root string, process transcript.Process) Pane {
	one := sessionPane(root, process)
	if k, ok := Known(known, process); ok {
		one.InboxKey, one.At = k.InboxKey, k.At
	}
	return one
}

// Known returns the session of a process among those of [Panes.KnownSessions].
func Known(known []Pane, process transcript.Process) (of Pane, ok bool) {
	for _, k := range known {
		if k.Ref.PID == process.PID && k.Start == process.ProcStart || k.Ref.ID == process.Session {
			of, ok = k, true
		}
	}
	return of, ok
}

// FindSession returns the session with a name, an id or at least 8 characters of one, a process id, or an
// absolute directory. Only one that something was sent to before need not live. It fails with
// *[SessionError].
func (p *Panes) FindSession(ctx context.Context, name string) (Pane, error) {
	living, err := p.Sessions(ctx)
	if err != nil {
		return Pane{}, err
	}
	known, err := p.KnownSessions(ctx)
	if err != nil {
		return Pane{}, err
	}
	all := slices.Clone(living)
	for _, k := range known {
		if !slices.ContainsFunc(living, func(l Pane) bool { return l.InboxKey == k.InboxKey }) {
			all = append(all, k)
		}
	}
	pid, _ := strconv.Atoi(name)
	for _, is := range []func(Pane) bool{
		func(s Pane) bool { return s.Inbox == name },
		func(s Pane) bool { return s.Ref.ID == name },
		func(s Pane) bool { return len(name) >= 8 && strings.HasPrefix(s.Ref.ID, name) },
		func(s Pane) bool {
			return s.Ref.PID == pid && slices.ContainsFunc(living, func(l Pane) bool { return l.Ref == s.Ref })
		},
		func(s Pane) bool { return strings.HasPrefix(name, "/") && s.Cwd == name },
	} {
		found := slices.DeleteFunc(slices.Clone(all), func(s Pane) bool { return !is(s) })
		if len(found) > 1 {
			if some := slices.DeleteFunc(slices.Clone(found), func(s Pane) bool { return !slices.Contains(living, s) }); len(some) == 1 {
				found = some // those that have ended can be named by their ids
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return Pane{}, &SessionError{Name: name, Sessions: found, Several: true}
		}
	}
	return Pane{}, &SessionError{Name: name, Sessions: living}
}

// sessionWith records the session with an id, so that it can be written to, and returns it. It may be one that takes no
// messages. It fails with *[SessionError].
func (p *Panes) sessionWith(ctx context.Context, id string) (Pane, error) {
	for _, s := range transcript.Processes(p.opts.Root.Path()) {
		if s = p.known(s); s.Session == id && teams.StateOf(s) != teams.Gone {
			return p.recordSession(ctx, sessionPane(p.opts.Root.Path(), s))
		}
	}
	for _, s := range p.opts.Homes.Processes() {
		if s.Session == id {
			return p.recordSession(ctx, sessionPane(p.opts.Root.Path(), s))
		}
	}
	return Pane{}, &SessionError{Name: id}
}

// recordSession records a session, so that messages to it can be put there.
func (p *Panes) recordSession(ctx context.Context, of Pane) (Pane, error) {
	r, err := p.opts.Ledger.AddSession(ctx, recordOf(of))
	return paneOf(r), err
}

// processOf returns the process of a session: the one that is recorded, or another one that goes on with it. What is recorded follows
// it. It is zero if none lives.
func (p *Panes) processOf(ctx context.Context, of *Pane) (transcript.Process, error) {
	root := p.opts.Root.Path()
	if program := p.opts.Homes.of(of.Profile); program != nil {
		return p.processIn(ctx, program, of)
	}
	now, ok := transcript.ProcessWith(root, of.Ref.PID)
	if now = p.known(now); !ok || now.ProcStart != of.Start || teams.StateOf(now) == teams.Gone {
		now = transcript.Process{}
		for _, other := range transcript.Processes(root) {
			if other = p.known(other); other.Session == of.Ref.ID && other.StartedAt >= now.StartedAt && teams.StateOf(other) != teams.Gone {
				now = other
			}
		}
	}
	if now.PID == 0 || now.PID == of.Ref.PID && now.Session == of.Ref.ID && now.Socket == of.Ref.Socket && now.Cwd == of.Cwd {
		return now, nil
	}
	of.Ref.PID, of.Ref.ID, of.Ref.Socket, of.Start, of.Cwd = now.PID, now.Session, now.Socket, now.ProcStart, now.Cwd
	_, err := p.recordSession(ctx, *of)
	return now, err
}

// why says why a session that is not idle is not, for people.
func whyBusy(s transcript.Process) string {
	if s.Status == transcript.ProcessWaiting {
		return cmp.Or(s.WaitingFor, "its person has to answer")
	}
	return ""
}

// Closed says why nothing can be sent to a pane or session now, whatever is at its prompt, if that does not change by
// itself; "" if it can.
func (p *Panes) Closed(ctx context.Context, of Pane) (held tmux.Reason, why string, err error) {
	if !of.IsSession() {
		held, why, err = of.Ref.Closed(ctx, of.Profile)
		if errors.Is(err, tmux.ErrGone) {
			held, why, err = tmux.Gone, "the pane is gone", nil
		}
		return held, why, err
	}
	s, err := p.processOf(ctx, &of)
	switch {
	case err != nil:
	case s.PID == 0:
		held, why = tmux.Gone, "the session has ended"
	case p.reach(s) == Nowhere:
		held, why = tmux.NotAgent, Refuses(s)
	}
	return held, why, err
}

// Held says why a message would not be sent to a pane or session now, or "".
func (p *Panes) Held(ctx context.Context, of Pane, policy tmux.Policy) (held tmux.Reason, why string, err error) {
	if held, why, err = p.Closed(ctx, of); err != nil || held != "" {
		return held, why, err
	}
	if of.IsSession() {
		s, err := p.processOf(ctx, &of)
		if err != nil {
			return "", "", err
		}
		return p.heldBySession(ctx, s, ledger.PaneMessage{Delivery: ledger.Delivery{InboxKey: of.InboxKey}, Policy: string(policy)})
	}
	held, why, err = p.tmux.held(ctx, of.Ref, of.Profile, policy)
	if errors.Is(err, tmux.ErrGone) {
		held, why, err = tmux.Gone, "the pane is gone", nil
	}
	return held, why, err
}

// Check returns an error if a message must not be sent to a pane or session: see [tmux.Input.Check] and
// [peer.Message.Check].
func Check(to Pane, m Message) error {
	if !to.IsSession() {
		return tmux.Input{Nonce: "00000000", From: m.From, Text: m.Text, Policy: m.Policy, SaveDraft: m.SaveDraft}.Check()
	}
	if m.SaveDraft || m.Policy != "" && !slices.Contains([]tmux.Policy{tmux.Queued, tmux.Important, tmux.WhenIdle}, m.Policy) {
		return errors.New("a session is not typed into: there is no draft to save, and nothing to interrupt it with")
	}
	if program := (Homes{}).of(to.Profile); program != nil {
		return program.check(m)
	}
	return peer.Message{From: m.From, Text: m.Text}.Check()
}

// sessionPane is a session that nothing was sent to.
func sessionPane(root string, s transcript.Process) Pane {
	return Pane{
		InboxKey: ledger.InboxKey{Root: root, Team: SessionTeam, CreatedAt: ledger.SessionTeamCreated, Inbox: SessionName(s.Name, s.Session)}, Profile: ProgramOf(s),
		Ref: tmux.Ref{Socket: s.Socket, ID: s.Session, PID: s.PID}, Start: s.ProcStart, Cwd: s.Cwd,
	}
}

// seeSession is see for a session.
func (p *Panes) seeSession(ctx context.Context, of Pane) (View, error) {
	s, err := p.processOf(ctx, &of)
	v := View{Pane: of, At: time.Now().UTC(), Basis: OnProcess, Process: s, PID: s.PID, Since: s.Changed}
	switch {
	case s.PID == 0:
		v.State, v.Why, v.Since = tmux.StateGone, "the session has ended", time.Time{}
	case s.Status == transcript.ProcessIdle:
		v.State = tmux.StateEmpty
	case s.Status == transcript.ProcessWaiting:
		v.State, v.Why = tmux.StateDialog, whyBusy(s)
	case s.Status == transcript.ProcessBusy, s.Status == transcript.ProcessShell:
		v.State = tmux.StateBusy
	default:
		v.State, v.Why = tmux.StateUnknown, "the session does not say what it does"
	}
	return v, err
}

// messageOf is a message as it is sent to a session.
func messageOf(m ledger.PaneMessage, try int) peer.Message {
	return peer.Message{ID: m.UUID, From: m.From, Text: string(m.Raw), Try: try}
}

// sendToSession sends one message to a session, or finds out what became of it, and records that.
//
// Of what was written, the transcript of a living session says within a second that it was queued. If it does not, the
// session asks its person first, or has dropped it, and mostly says so. What is written again is never in a
// transcript: a session that has ended writes no more, and a living one is given the time in which it would
// have said something.
func (p *Panes) sendToSession(ctx context.Context, of Pane, m ledger.PaneMessage) error {
	keep := context.WithoutCancel(ctx) // what is known is recorded even if ctx has ended
	l := p.opts.Ledger
	defer p.changed(m.InboxKey)
	hold := func(reason tmux.Reason, detail string, next time.Time) error {
		return l.HoldPaneMessage(keep, m.UUID, string(reason), detail, next)
	}
	now, err := p.processOf(ctx, &of)
	if err != nil {
		return err
	}
	proof := p.proof(of, m)
	frame, tries := m.Frame, 0
	if frame != "" { // the process was looked at before
		if proof.holds(ctx) {
			return p.confirmSession(keep, frame, m, proof)
		}
		f, found, err := l.Frame(ctx, frame)
		if err != nil || !found {
			return err
		}
		tries = f.Tries
		if now.PID == 0 || f.Session != sessionAt(now) {
			return ignoreMoved(l.ReturnFrame(keep, frame, "the session ended before it had the message"), frame)
		}
		n, told, _ := p.mailbox.Told(toldAs(of, frame, m))
		if told {
			if ended, err := p.heed(keep, of, frame, m, n); ended || err != nil {
				return err
			}
		}
		// The time counts from when the session was last seen to ask nothing: what its person has just allowed is
		// not in the transcript at once.
		quiet := notYet(tries)
		asleep, _ := p.wakes(now)
		has := ""
		if program := p.opts.Homes.of(of.Profile); program != nil {
			has = program.has(p, now, frame, tries)
		}
		switch {
		case told && n.Status == peer.Held:
			return hold(tmux.Dialog, asksFirst(of), p.soon(m))
		case now.Status == transcript.ProcessWaiting:
			return hold(tmux.Dialog, "the session does not show it, and asks its person something: perhaps whether it may come", p.soon(m))
		case asleep != "": // nor could it be written again
			return hold(asleep, "the session does not show it yet", p.soon(m))
		case has != "":
			return hold(tmux.Busy, has, p.soon(m))
		case m.Held != string(quiet) || time.Since(m.HeldSince) < p.timing.repeat:
			return hold(quiet, "the session does not show it yet", p.soon(m))
		case tries >= 2:
			return ignoreMoved(l.FailFrame(keep, frame, Unknown+"the session was sent it twice and shows nothing of it", ledger.TaskNone), frame)
		}
	} else if held, why, err := p.heldBySession(ctx, now, m); err != nil || held != "" {
		return cmp.Or(err, hold(held, why, p.again(now, m)))
	}
	list, err := p.together(ctx, now, m)
	if err != nil || !slices.Contains(uuids(list), m.UUID) { // it has just been dropped
		return err
	}
	if frame == "" {
		frame = uuid.NewString()
		bytes, err := json.Marshal(string(m.Raw))
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err = l.PasteFrame(ctx, ledger.Frame{
			UUID: frame, InboxKey: m.InboxKey, Kind: ledger.FrameCommand, Bytes: bytes, Session: sessionAt(now), State: ledger.FrameWritten, At: time.Now(),
		}, uuids(list)...)
		if err != nil {
			return ignoreMoved(err, uuids(list)...)
		}
		m.SentAt = time.Now()
	}
	if err := l.Tried(keep, frame, sessionAt(now)); err != nil {
		return err
	}
	err = p.write(ctx, of.Root, now, frame, list, max(m.Tries, tries)+1)
	if errors.Is(err, peer.ErrUnsent) && tries == 0 {
		why := strings.TrimPrefix(err.Error(), peer.ErrUnsent.Error()+": ")
		return errors.Join(ignoreMoved(l.ReturnFrame(keep, frame, why), frame), hold(tmux.Unknown, why, p.again(now, m)))
	}
	return errors.Join(err, p.settle(ctx, keep, of, frame, m, notYet(tries+1), proof))
}

// notYet is why a message is held that was written so often and of which the session shows nothing: another reason each
// time, so that the time counts anew.
func notYet(tries int) tmux.Reason {
	if tries < 2 {
		return tmux.Unknown
	}
	return tmux.NotProven
}

// Refuses says why a session takes no messages, which [ReachOf] says of it.
func Refuses(s transcript.Process) string {
	if program := (Homes{}).of(ProgramOf(s)); program != nil {
		return program.takes(s)
	}
	return "the session takes no messages: it has no socket for them, nor the waiting hook (teambridge hook install --wake)"
}

// asksFirst says why a message is held by a session.
func asksFirst(of Pane) string {
	if of.Profile == Qwen {
		return "held until its person allows it: with /peers, and then /peers accept, in the session"
	}
	return "held until its person allows it: the session bypasses permissions, and asks first"
}

// toldAs is the id under which a session says what becomes of a message. A session of Qwen Code repeats what it has said
// of an id, even if the message was never in its queue: so, each frame has another one.
func toldAs(of Pane, frame string, m ledger.PaneMessage) string {
	if of.Profile == Qwen {
		return frame
	}
	return m.UUID
}

// sessionAt names a session in a process.
func sessionAt(s transcript.Process) string { return strconv.Itoa(s.PID) + "@" + s.ProcStart }

// soon is when to look again at a message that was written.
func (p *Panes) soon(m ledger.PaneMessage) time.Time {
	return time.Now().Add(min(time.Since(m.SentAt)/4+p.timing.look, p.timing.repeat/8))
}

// settle waits until the transcript shows a message that was just written, or the session says something of it, for
// a while. quiet is why it is held if neither happens.
func (p *Panes) settle(ctx, keep context.Context, of Pane, frame string, m ledger.PaneMessage, quiet tmux.Reason, proof *proof) error {
	end := time.NewTimer(p.timing.settle)
	defer end.Stop()
	tick := time.NewTicker(p.timing.record / 2)
	defer tick.Stop()
	for {
		if proof.holds(ctx) {
			return p.confirmSession(keep, frame, m, proof)
		}
		n, told, next := p.mailbox.Told(toldAs(of, frame, m))
		if told && n.Status != peer.Delivered {
			ended, err := p.heed(keep, of, frame, m, n)
			if !ended && err == nil {
				err = p.opts.Ledger.HoldPaneMessage(keep, m.UUID, string(tmux.Dialog), asksFirst(of), p.soon(m))
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil // the next one finds out
		case <-end.C:
			return p.opts.Ledger.HoldPaneMessage(keep, m.UUID, string(quiet), "the session does not show it yet", p.soon(m))
		case <-next:
		case <-tick.C:
		}
	}
}

// heed acts on what a session said of a message. ended says that its frame has ended.
func (p *Panes) heed(ctx context.Context, of Pane, frame string, m ledger.PaneMessage, n peer.Notice) (ended bool, err error) {
	l := p.opts.Ledger
	id := toldAs(of, frame, m)
	switch n.Status {
	case peer.Returned:
		p.mailbox.Forget(id)
		return true, errors.Join(ignoreMoved(l.ReturnFrame(ctx, frame, n.Reason), frame), l.HoldPaneMessage(ctx, m.UUID, string(tmux.Unknown), n.Reason, time.Now().Add(p.timing.look)))
	case peer.Dropped:
		p.mailbox.Forget(id)
		if err := ignoreMoved(l.ReturnFrame(ctx, frame, "the session dropped it: "+n.Reason), frame); err != nil {
			return true, err
		}
		next := time.Now().Add(2 * p.timing.refill)
		if strings.Contains(n.Reason, "duplicate") {
			next = time.Now().Add(p.timing.repeat)
		}
		return true, l.HoldPaneMessage(ctx, m.UUID, string(tmux.HasQueue), "the session dropped it: "+n.Reason, next)
	case peer.Denied, peer.Expired, peer.Refused:
		p.mailbox.Forget(id)
		why := map[peer.Status]string{
			peer.Denied: "its person did not allow it", peer.Expired: "its person did not answer whether it may come", peer.Refused: "its settings refuse messages of others",
		}[n.Status]
		return true, ignoreMoved(l.FailFrame(ctx, frame, NotSent+why, ledger.TaskNone), frame)
	}
	return false, nil
}

// confirmSession records that a session has a message.
func (p *Panes) confirmSession(ctx context.Context, frame string, m ledger.PaneMessage, proof *proof) error {
	p.mailbox.Forget(m.UUID)
	p.mailbox.Forget(frame)
	task := ledger.TaskSent
	found, _ := proof.find(ctx)
	if found.given {
		task = ledger.TaskGiven
	}
	return ignoreMoved(p.opts.Ledger.ConfirmFrame(ctx, frame, "", task, found.path), frame)
}

// heldBySession says why a message must not be written to a session now; "" if it may.
func (p *Panes) heldBySession(ctx context.Context, s transcript.Process, m ledger.PaneMessage) (tmux.Reason, string, error) {
	switch {
	case s.PID == 0:
		return tmux.Gone, "the session has ended", nil
	case p.reach(s) == Nowhere:
		return tmux.NotAgent, Refuses(s), nil
	case m.Policy == string(tmux.WhenIdle) && s.Status != transcript.ProcessIdle:
		return tmux.Busy, cmp.Or(whyBusy(s), "the agent works"), nil
	}
	if why, detail := p.wakes(s); why != "" {
		return why, detail, nil
	}
	open, err := p.opts.Ledger.PaneMessages(ctx, m.InboxKey)
	if err != nil {
		return "", "", err
	}
	queued := 0
	for _, o := range open {
		if o.Task == ledger.TaskSent {
			queued++
		}
	}
	if queued >= peer.Queue {
		return tmux.HasQueue, fmt.Sprintf("%d messages wait in the session", queued), nil
	}
	if ProgramOf(s) == Codex {
		return "", "", nil // it has no limit
	}
	// Its bucket, as far as we have taken something out of it.
	sent, err := p.opts.Ledger.SentSince(ctx, m.InboxKey, time.Now().Add(-peer.Burst*p.timing.refill))
	left, last := float64(peer.Burst), time.Time{}
	for _, at := range append(sent, time.Now()) {
		if !last.IsZero() {
			left = min(peer.Burst, left+float64(at.Sub(last))/float64(p.timing.refill))
		}
		left, last = left-1, at
	}
	if left < 0 {
		return tmux.TooSoon, "the session takes one message in two seconds now", err
	}
	return "", "", err
}

// left ends the tasks of messages that a process had that has ended, and returns the others. What its model was not
// given waits again, and nobody sees the end of what it was given. What was found must have been read after now.
func (p *Panes) left(ctx context.Context, of Pane, now transcript.Process, open []ledger.PaneMessage, found map[string]progress) (others []ledger.PaneMessage, err error) {
	var gone []ledger.PaneMessage
	for _, m := range open {
		f, there, err := p.opts.Ledger.Frame(ctx, m.Frame)
		if err != nil {
			return nil, err
		}
		if there && f.Session == sessionAt(now) {
			others = append(others, m)
		} else {
			gone = append(gone, m)
		}
	}
	var again, lost []string
	for _, m := range gone {
		switch s := found[Nonce(m.UUID)]; {
		case s.over():
			if err := p.endTasks(ctx, of.InboxKey, gone, found, s, true); err != nil {
				return nil, err
			}
		case s.given, s.kept:
			lost = append(lost, m.UUID)
		case !s.removed:
			again = append(again, m.UUID)
		}
	}
	if len(again)+len(lost) == 0 {
		return others, nil
	}
	err = p.opts.Ledger.SendAgain(ctx, of.InboxKey, again...)
	if err == nil && len(lost) > 0 {
		_, err = p.opts.Ledger.EndTasks(ctx, of.InboxKey, "", "the session ended", lost...)
	}
	p.changed(of.InboxKey)
	return others, errors.Join(err, p.notify(ctx))
}
