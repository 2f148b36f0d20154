package pane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/peer"
	"teambridge/relay/tmux"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// SessionTeam is the name of the team of all sessions that are in no other team.
const SessionTeam = ledger.SessionTeam

// SessionExpire is how long a message waits for a session before it has failed as not sent.
const SessionExpire = 24 * time.Hour

// Session is the profile of a session of Claude Code.
const Session tmux.Profile = "session"

// IsSession reports whether p is a session and no pane of tmux.
func (p Pane) IsSession() bool { return p.Team == SessionTeam }

// List returns the sessions that messages can be sent to, sorted by name: those that are in no team, that no relay
// runs, and that messages can get into ([ReachOf]). A session that was recorded with an earlier message keeps its
// name of that time.
func (ss *Sessions) List(ctx context.Context) ([]Pane, error) {
	list, _, err := ss.list(ctx)
	return list, err
}

// list is List. It also returns the processes of sessions that take no messages.
func (ss *Sessions) list(ctx context.Context) (list []Pane, refuse []transcript.Process, err error) {
	root := ss.opts.Root
	living, err := root.Sessions(ctx)
	if err != nil && living == nil {
		return nil, nil, err
	}
	known, err := ss.Known(ctx)
	if err != nil {
		return nil, nil, err
	}
	var relayed []ledger.Session
	if ss.opts.Ledger != nil {
		if relayed, err = ss.opts.Ledger.Sessions.List(ctx, root.Path()); err != nil {
			return nil, nil, err
		}
	}
	var all []transcript.Process
	for _, s := range living {
		if _, ours := RelayOf(relayed, s.Process); s.Team == "" && !ours {
			all = append(all, s.Process)
		}
	}
	var take []transcript.Process
	for _, s := range append(all, ss.opts.Homes.Processes()...) {
		if ss.reach(s) == Nowhere {
			refuse = append(refuse, s)
		} else {
			take = append(take, s)
		}
	}
	for _, s := range take {
		if !slices.ContainsFunc(take, func(other transcript.Process) bool { return goesOn(known, other, s) }) {
			list = append(list, sessionAmong(known, root.Path(), s))
		}
	}
	slices.SortStableFunc(list, func(a, b Pane) int { return cmp.Compare(a.Inbox, b.Inbox) })
	return list, refuse, nil
}

// goesOn reports whether the first of two processes that have the same session gets its messages: the recorded one
// does, or else the one that was started later.
func goesOn(known []Pane, first, other transcript.Process) bool {
	recorded := func(p transcript.Process) bool {
		return slices.ContainsFunc(known, func(k Pane) bool { return k.Ref.PID == p.PID && k.Start == p.ProcStart && k.Ref.ID == p.Session })
	}
	switch {
	case first.Session != other.Session || first.Session == "" || first.PID == other.PID || recorded(other):
		return false
	case recorded(first):
		return true
	}
	return cmp.Or(cmp.Compare(first.StartedAt, other.StartedAt), cmp.Compare(first.PID, other.PID)) > 0
}

// RelayOf returns the session of a process from the ledger's list of sessions that relays run; ok is false if it has
// none. The start times must match, too, if known: a process can have the pid of an agent that was killed.
func RelayOf(relayed []ledger.Session, p transcript.Process) (of ledger.Session, ok bool) {
	i := slices.IndexFunc(relayed, func(r ledger.Session) bool {
		start, _, known := strings.Cut(r.Start, "@")
		return r.PID != 0 && r.PID == p.PID && (!known || p.ProcStart == "" || start == p.ProcStart)
	})
	if i < 0 {
		return of, false
	}
	return relayed[i], true
}

// Around returns the living sessions, and those that have ended with open messages to them, or with unread messages
// from them to the person, sorted by name.
func (ss *Sessions) Around(ctx context.Context) ([]Pane, error) {
	list, err := ss.List(ctx)
	if err != nil {
		return nil, err
	}
	known, err := ss.Known(ctx)
	if err != nil {
		return nil, err
	}
	if len(known) == 0 {
		return list, nil
	}
	unread, err := ss.unread(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		if slices.ContainsFunc(list, func(s Pane) bool { return s.InboxKey == k.InboxKey }) {
			continue
		}
		if open, err := ss.opts.Ledger.PaneMessages.List(ctx, k.InboxKey); err != nil {
			return nil, err
		} else if len(open) > 0 || unread[k.Inbox] {
			k.Ended = true
			list = append(list, k)
		}
	}
	slices.SortStableFunc(list, func(a, b Pane) int { return cmp.Compare(a.Inbox, b.Inbox) })
	return list, nil
}

// Processes returns an opaque text that changes whenever Claude Code writes the file of a process, or another program
// begins or ends a turn.
func (ss *Sessions) Processes() string {
	var all strings.Builder
	files, _ := os.ReadDir(filepath.Join(ss.opts.Root.Path(), "sessions")) // none, if it cannot be read
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			fmt.Fprintln(&all, f.Name(), info.ModTime().UnixNano(), info.Size())
		}
	}
	for _, s := range ss.opts.Homes.Processes() {
		fmt.Fprintln(&all, s.PID, s.ProcStart, s.Session, s.Entrypoint, s.Status, s.Changed)
	}
	return all.String()
}

// Others reports whether there may be sessions of programs other than Claude Code: the home directory of one exists.
func (ss *Sessions) Others() bool {
	for _, home := range []string{ss.opts.Homes.Codex, ss.opts.Homes.Qwen} {
		if home == "" {
			continue
		}
		if _, err := os.Stat(home); err == nil {
			return true
		}
	}
	return false
}

// Known returns the sessions that the ledger has recorded, such as for a message, alive or not, sorted by name.
// Without a ledger there are none.
func (ss *Sessions) Known(ctx context.Context) (list []Pane, err error) {
	if ss.opts.Ledger == nil {
		return nil, nil
	}
	all, err := ss.opts.Ledger.Panes.List(ctx, ss.opts.Root.Path())
	for _, one := range all {
		if one.Team == SessionTeam {
			list = append(list, paneOf(one))
		}
	}
	return list, err
}

// SessionName returns the name of a session as a member: its own name or, if that is not valid, its id. The names of
// the person and of [Stranger] are not valid, so that no session can pass for them.
func SessionName(name, id string) string {
	if teams.CheckName("session", name) == nil && name != mail.User && name != Stranger {
		return name
	}
	return id
}

// SessionError says that a name means no session that takes messages, or several.
type SessionError struct {
	Name     string
	Sessions []Pane // all living ones, or those that have the name
	Several  bool

	Refuses string // why the session with the name takes no messages; "" if no session has the name
	Queue   bool   // its person can use its own queue: see [ByQueue]
}

func (e *SessionError) Error() string {
	switch {
	case e.Several:
		return fmt.Sprintf("%d sessions are called %q", len(e.Sessions), e.Name)
	case e.Refuses != "":
		return e.Name + ": " + e.Refuses
	}
	return fmt.Sprintf("no session that takes messages is called %q", e.Name)
}

// Choices returns the names of the sessions, or their ids if several have the name e.Name.
func (e *SessionError) Choices() (list []string) {
	byID := e.Several && slices.ContainsFunc(e.Sessions, func(s Pane) bool { return s.Inbox == e.Name || s.Title == e.Name })
	for _, s := range e.Sessions {
		if byID {
			list = append(list, s.Ref.ID)
		} else {
			list = append(list, s.Inbox)
		}
	}
	return list
}

// NoSessionError says that a member of a team has no process of its own whose session takes messages.
type NoSessionError struct{ Team, Member string }

func (e *NoSessionError) Error() string {
	return fmt.Sprintf("%s@%s has no session of its own that takes messages", e.Member, e.Team)
}

// Of returns the session of a member of a team that has a process of its own. The errors are *[NoSessionError], and
// those of [teams.Team.Resolve].
func (ss *Sessions) Of(ctx context.Context, t *teams.Team, member string) (Pane, error) {
	name, err := t.Resolve(ctx, member)
	if err != nil {
		return Pane{}, err
	}
	living, err := ss.opts.Root.Sessions(ctx)
	if err != nil && living == nil {
		return Pane{}, err
	}
	known, err := ss.Known(ctx)
	if err != nil {
		return Pane{}, err
	}
	for _, s := range living {
		if s.Team == t.Name() && s.Member == name && ss.reach(s.Process) != Nowhere {
			return sessionAmong(known, ss.opts.Root.Path(), s.Process), nil
		}
	}
	return Pane{}, &NoSessionError{Team: t.Name(), Member: name}
}

// sessionAmong returns the session of a process, under its recorded name if it is among the known ones.
func sessionAmong(known []Pane, root string, process transcript.Process) Pane {
	one := sessionPane(root, process)
	if k, ok := Known(known, process); ok {
		one.InboxKey, one.At = k.InboxKey, k.At
	}
	return one
}

// Known returns the session of a process among those of [Sessions.Known].
func Known(known []Pane, process transcript.Process) (of Pane, ok bool) {
	for _, k := range known {
		if k.Home == process.Home && (k.Ref.PID == process.PID && k.Start == process.ProcStart || k.Ref.ID == process.Session) {
			of, ok = k, true
		}
	}
	if ok || process.Job == "" {
		return of, ok
	}
	for _, k := range known { // its conversation may have been moved to this process
		if _, _, in := teams.Moved(k.Root, k.Ref.ID); in.PID == process.PID && k.Profile == Session {
			return k, true
		}
	}
	return of, false
}

// Find returns the session with a name, an id or at least its first 8 characters, a process id, or an
// absolute directory. The session must live, be recorded ([Sessions.Known]), or have been stopped in the
// background. It fails with *[SessionError].
func (ss *Sessions) Find(ctx context.Context, name string) (Pane, error) {
	living, refuse, err := ss.list(ctx)
	if err != nil {
		return Pane{}, err
	}
	known, err := ss.Known(ctx)
	if err != nil {
		return Pane{}, err
	}
	all := slices.Clone(living)
	for _, k := range known {
		if !slices.ContainsFunc(living, func(l Pane) bool { return l.InboxKey == k.InboxKey }) {
			all = append(all, k)
		}
	}
	found, err := find(name, all, living)
	if e, ok := errors.AsType[*SessionError](err); ok && !e.Several {
		for _, s := range refuse {
			one := []Pane{sessionAmong(known, ss.opts.Root.Path(), s)}
			if _, err := find(name, one, one); err == nil {
				e.Refuses, e.Queue = Refuses(s), ProgramOf(s) == Codex && s.Interactive
			}
		}
		if e.Refuses == "" {
			if of, missing := ss.inBackground(name, all); missing == nil {
				return of, nil
			}
		}
	}
	return found, err
}

// inBackground returns the session in the background with a name, a key or an id, which may be an earlier one. all are
// the sessions that live or are recorded; one that was stopped and never written to is not among them.
func (ss *Sessions) inBackground(name string, all []Pane) (Pane, error) {
	root := ss.opts.Root.Path()
	if _, job, _ := teams.Moved(root, name); job != "" {
		name = job
	}
	var list []Pane
	for _, j := range transcript.Jobs(root) {
		list = append(list, sessionPane(root, transcript.Process{Session: j.Session, Name: j.Name, Cwd: j.Cwd, Job: j.Key}))
	}
	found, err := find(name, list, nil)
	if err != nil {
		return Pane{}, err
	}
	for _, s := range all {
		if _, job, _ := teams.Moved(root, s.Ref.ID); job == found.Job && s.Profile == Session {
			s.Job = job
			return s, nil
		}
	}
	return found, nil
}

// find returns the session with a name among all; living ones take precedence. A session keeps its recorded name. If
// its title has changed since, and another session has that name as its title, the name is ambiguous.
func find(name string, all, living []Pane) (Pane, error) {
	pid, _ := strconv.Atoi(name)
	called := func(s Pane) bool { return s.Title == name }
	for _, is := range []func(Pane) bool{
		func(s Pane) bool {
			return s.Inbox == name || called(s) && slices.ContainsFunc(living, func(l Pane) bool { return l.Inbox == name && l.Title != name })
		},
		called,
		func(s Pane) bool { return s.Ref.ID == name },
		func(s Pane) bool { return s.Job != "" && s.Job == name },
		func(s Pane) bool { return len(name) >= 8 && strings.HasPrefix(s.Ref.ID, name) },
		func(s Pane) bool {
			return s.Ref.PID == pid && slices.ContainsFunc(living, func(l Pane) bool { return l.Ref == s.Ref })
		},
		func(s Pane) bool { return strings.HasPrefix(name, "/") && s.Cwd == name },
	} {
		found := slices.DeleteFunc(slices.Clone(all), func(s Pane) bool { return !is(s) })
		if len(found) > 1 {
			if some := slices.DeleteFunc(slices.Clone(found), func(s Pane) bool { return !slices.Contains(living, s) }); len(some) == 1 {
				found = some // ended sessions can be named by their ids
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

// living returns the sessions of all programs that have a process.
func (ss *Sessions) living() []transcript.Process {
	list := slices.DeleteFunc(transcript.Processes(ss.opts.Root.Path()), func(s transcript.Process) bool { return teams.StateOf(s) == teams.Gone })
	return append(list, ss.opts.Homes.Processes()...)
}

// with records the living session with an id, so that messages to it can be queued, and returns it. The session may
// be one that takes no messages. It fails with *[SessionError].
func (ss *Sessions) with(ctx context.Context, id string) (Pane, error) {
	for _, s := range ss.living() {
		if s.Session == id {
			return ss.record(ctx, sessionPane(ss.opts.Root.Path(), s))
		}
	}
	return Pane{}, &SessionError{Name: id}
}

// record records a session, so that messages to it can be queued. A session that was moved to the background keeps
// its name and the messages that wait for it.
func (ss *Sessions) record(ctx context.Context, of Pane) (Pane, error) {
	var was []string
	if s, ok := transcript.ProcessWith(of.Root, of.Ref.PID); ok && s.Job != "" && of.Profile == Session {
		known, err := ss.Known(ctx)
		if err != nil {
			return Pane{}, err
		}
		if k, ok := Known(known, s); ok {
			was = append(was, k.Ref.ID)
		}
	}
	r, err := ss.opts.Ledger.Panes.AddSession(ctx, recordOf(of), was...)
	return paneOf(r), err
}

// process returns the process of a session: the recorded one, or another one that continues the session, which is
// then recorded. It is zero if none lives, or if [Homes.foreign] says why that is not known.
func (ss *Sessions) process(ctx context.Context, of *Pane) (now transcript.Process, err error) {
	if program := ss.opts.Homes.of(of.Profile); program != nil {
		if ss.opts.Homes.foreign(*of) == "" {
			now = processIn(program, *of)
		}
	} else {
		now = ss.processOf(*of)
	}
	if now.PID == 0 || now.PID == of.Ref.PID && now.ProcStart == of.Start && now.Session == of.Ref.ID && now.Socket == of.Ref.Socket && now.Cwd == of.Cwd {
		return now, nil
	}
	of.Ref.PID, of.Ref.ID, of.Ref.Socket, of.Start, of.Cwd = now.PID, now.Session, now.Socket, now.ProcStart, now.Cwd
	if ss.opts.Ledger != nil {
		_, err = ss.record(ctx, *of)
	}
	return now, err
}

// processOf is process for a session of Claude Code.
func (ss *Sessions) processOf(of Pane) transcript.Process {
	root := ss.opts.Root.Path()
	now, ok := transcript.ProcessWith(root, of.Ref.PID)
	if ok && now.ProcStart == of.Start && !now.IsViewer() && teams.StateOf(now) != teams.Gone {
		return now
	}
	now = transcript.Process{}
	for _, other := range transcript.Processes(root) {
		if other.Session == of.Ref.ID && other.StartedAt >= now.StartedAt && teams.StateOf(other) != teams.Gone {
			now = other
		}
	}
	if now.PID == 0 {
		_, _, now = teams.Moved(root, of.Ref.ID)
	}
	return now
}

// ending reports whether the process that had a message, named as by sessionAt, is still ending: it first removes its
// file, and then writes the missing records into its transcript. A process whose conversation was moved to the
// background gives its model nothing any more, and counts as ending only for timing.settle.
func (ss *Sessions) ending(session string, now transcript.Process) bool {
	pid, start, _ := strings.Cut(session, "@")
	n, err := strconv.Atoi(pid)
	if viewer, ok := transcript.ProcessWith(ss.opts.Root.Path(), n); ok && viewer.IsViewer() && viewer.ProcStart == start {
		info, err := os.Stat(viewer.Path) // it is not written any more
		return err == nil && time.Since(info.ModTime()) < ss.timing.settle
	}
	return err == nil && session != sessionAt(now) && teams.StateOf(transcript.Process{PID: n, ProcStart: start}) == teams.Alive
}

// over says why no process has a session, and how it can be continued.
func (ss *Sessions) over(of Pane) string {
	return cmp.Or(whyOver(of, ss.opts.Homes), "the session has ended")
}

// whyOver is over, or "" for a session of which nothing more is known.
func whyOver(of Pane, homes Homes) string {
	if why := homes.foreign(of); why != "" {
		return why
	}
	if _, job, _ := teams.Moved(of.Root, of.Ref.ID); job != "" && of.Profile == Session {
		return "the session in the background was stopped; it goes on with: claude respawn " + job
	}
	return ""
}

// lastWritten returns when the transcript of a session changed last, which is when it ended or soon before; zero if
// it has none.
func lastWritten(of Pane) time.Time {
	path, ok := transcript.Session(of.Root, of.Cwd, of.Ref.ID)
	if !ok {
		return time.Time{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// whyBusy explains to people why a session is not idle.
func whyBusy(s transcript.Process) string {
	if s.Status == transcript.ProcessWaiting {
		return cmp.Or(s.WaitingFor, "its person has to answer")
	}
	return ""
}

// Closed says why nothing can be sent to a pane or session, if that does not change by itself; else "". It does not
// look at the prompt.
func (vs *Views) Closed(ctx context.Context, of Pane) (held tmux.Reason, why string, err error) {
	if !of.IsSession() {
		held, why, err = of.Ref.Closed(ctx, of.Profile)
		if errors.Is(err, tmux.ErrGone) {
			held, why, err = tmux.Gone, "the pane is gone", nil
		}
		if old := CheckVersion(vs.agent(of), "it"); err == nil && held == "" && old != nil {
			held, why = tmux.Outdated, old.Error()
		}
		return held, why, err
	}
	s, err := vs.sessions.process(ctx, &of)
	switch {
	case err != nil:
	case s.PID == 0 && stoppedJob(of, vs.opts.State) != "": // the message starts it
	case s.PID == 0:
		held, why = tmux.Gone, vs.sessions.over(of)
	default:
		held, why = vs.sessions.closed(s)
	}
	return held, why, err
}

// closed is Closed for the session of a process.
func (ss *Sessions) closed(s transcript.Process) (held tmux.Reason, why string) {
	switch ss.reach(s) {
	case Outdated:
		return tmux.Outdated, Refuses(s)
	case Nowhere:
		return tmux.NotAgent, Refuses(s)
	}
	return "", ""
}

// Held says why a message would not be sent to a pane or session now, or "".
func (q *Queue) Held(ctx context.Context, of Pane, policy tmux.Policy) (held tmux.Reason, why string, err error) {
	if of.IsSession() {
		m := ledger.PaneMessage{Delivery: ledger.Delivery{InboxKey: of.InboxKey}, Policy: string(policy)}
		w, err := q.carrier.way(ctx, &of, m)
		if err != nil {
			return "", "", err
		}
		f, err := w.look(ctx, &attempt{message: m})
		return f.hold.why, f.hold.detail, err
	}
	if held, why, err = q.views.Closed(ctx, of); err != nil || held != "" {
		return held, why, err
	}
	held, why, err = q.tmux.held(ctx, of.Ref, of.Profile, policy)
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
	policies := []tmux.Policy{"", tmux.Queued, tmux.Important, tmux.WhenIdle}
	if to.Profile == Codex {
		policies = append(policies, ByQueue)
	}
	if m.SaveDraft || !slices.Contains(policies, m.Policy) {
		return errors.New("a session is not typed into: there is no draft to save, and nothing to interrupt it with")
	}
	if program := (Homes{}).of(to.Profile); program != nil {
		return program.check(m)
	}
	return peer.Message{From: m.From, Text: m.Text}.Check()
}

// Headless reports whether another program runs a session, as with "claude -p", and so gets its answers.
func (ss *Sessions) Headless(of Pane) bool {
	s, _ := transcript.ProcessWith(ss.opts.Root.Path(), of.Ref.PID)
	return of.IsSession() && strings.HasPrefix(s.Entrypoint, "sdk")
}

// sessionPane returns the session of a process as it is without a record.
func sessionPane(root string, s transcript.Process) Pane {
	name := SessionName(s.Name, s.Session)
	return Pane{
		InboxKey: inbox.InboxKey{Root: root, Team: SessionTeam, CreatedAt: ledger.SessionTeamCreated, Inbox: name}, Profile: ProgramOf(s), Title: name,
		Ref: tmux.Ref{Socket: s.Socket, ID: s.Session, PID: s.PID}, Start: s.ProcStart, Cwd: s.Cwd, Home: s.Home, Job: s.Job,
	}
}

// seeSession is see for a session.
func (vs *Views) seeSession(ctx context.Context, of Pane) (View, error) {
	s, err := vs.sessions.process(ctx, &of)
	v := View{Pane: of, At: time.Now().UTC(), Basis: OnProcess, Process: s, PID: s.PID, Since: s.Changed}
	switch {
	case s.PID == 0:
		v.State, v.Why, v.Since = tmux.Gone, whyOver(of, vs.opts.Homes), lastWritten(of)
	case vs.reach(s) == Outdated:
		v.State, v.Why, v.Since = tmux.Unknown, Refuses(s), time.Time{}
	case s.Status == transcript.ProcessIdle:
		v.State = tmux.Empty
	case s.Status == transcript.ProcessWaiting:
		v.State, v.Why = tmux.Dialog, whyBusy(s)
	case s.Status == transcript.ProcessBusy, s.Status == transcript.ProcessShell:
		v.State = tmux.Busy
	default:
		v.State, v.Why = tmux.Unknown, "the session does not say what it does"
	}
	return v, err
}

// saysIdle asks a session whether it is idle, and waits up to 5 s for the answer, if the file of its process has no
// status. The file of a headless session of 2.1.257 has none.
func (vs *Views) saysIdle(ctx context.Context, of Pane) bool {
	s, err := vs.sessions.process(ctx, &of)
	if err != nil || s.Status != "" || of.Profile != Session || vs.reach(s) != BySocket {
		return false
	}
	end := vs.incoming.use()
	defer func() { _ = end() }() // the next use removes leftovers
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return vs.incoming.mailbox.Idle(ctx, of.Root, s) == nil
}
