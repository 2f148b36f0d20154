package pane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/tmux"
	"teambridge/teams"
	"teambridge/teams/excerpt"
	"teambridge/teams/transcript"
)

// follow records the progress of the agent in a pane with the tasks of its messages. It also
// finds ends of turns that no hook has reported, if the transcript shows them.
func (t *Tasks) follow(ctx context.Context, of Pane, messages []ledger.PaneMessage) error {
	var open []ledger.PaneMessage
	since := time.Now()
	for _, m := range messages {
		if m.Task.Open() {
			open = append(open, m)
			if m.SentAt.Before(since) {
				since = m.SentAt
			}
		}
	}
	if len(open) == 0 || t.opts.Homes.foreign(of) != "" {
		return nil
	}
	var now transcript.Process // of a session
	if of.IsSession() {
		var err error
		if now, err = t.sessions.process(ctx, &of); err != nil {
			return err
		}
	} else if lost, err := t.ended(ctx, of); err != nil || lost != "" {
		if lost != "" {
			err = t.opts.Ledger.PaneMessages.LoseTasks(ctx, of.InboxKey, lost)
			t.changed(of.InboxKey)
		}
		return errors.Join(err, t.notify(ctx))
	}
	paths := t.transcripts.paths(of, t.transcripts.dir(ctx, of), since)
	for _, m := range open {
		if m.Transcript != "" && !slices.Contains(paths, m.Transcript) {
			paths = append(paths, m.Transcript)
		}
	}
	if of.IsSession() {
		var err error
		if open, err = t.left(ctx, of, now, open, paths); err != nil {
			return err
		}
	}
	found := t.transcripts.found(paths...)
	idle := false // the agent was seen idle, once for all messages
	for _, m := range open {
		s, ok := found[Nonce(m.UUID)]
		if ok && s.removed && !s.given {
			if err := t.lose(ctx, m, "a person took it back to the prompt"); err != nil {
				return err
			}
		}
		if ok && s.refused != "" && !s.given {
			if err := t.lose(ctx, m, "a UserPromptSubmit hook of the session refused it: "+s.refused); err != nil {
				return err
			}
			continue
		}
		if ok && s.altered(string(m.Raw)) { // the screen alone had confirmed it
			if err := t.lose(ctx, m, altered); err != nil {
				return err
			}
			continue
		}
		if !ok || !s.given {
			continue
		}
		if m.Task != ledger.TaskGiven {
			if err := t.opts.Ledger.PaneMessages.TaskGiven(ctx, m.UUID, s.at, s.path); err != nil {
				return err
			}
			t.changed(of.InboxKey)
		}
		if m.Task == ledger.TaskGiven && !s.over() && time.Since(m.TaskAt) > t.timing.lag {
			if err := t.brokenOff(ctx, of, m); err != nil {
				return err
			}
			continue
		}
		if s.over() && !s.final && !idle {
			if of.IsSession() && now.Status == "" { // some headless sessions report no status
				idle = !s.endedAt.IsZero() && time.Since(s.endedAt) > t.timing.recent
			} else if why, err := t.views.atWork(ctx, of, true); err != nil {
				return err
			} else {
				idle = why == ""
			}
			// The agent may have got a message between the two looks.
			found = t.transcripts.found(paths...)
			s = found[Nonce(m.UUID)]
		}
		if s.final || s.over() && idle {
			if err := t.endTasks(ctx, of.InboxKey, open, found, s, idle); err != nil {
				return err
			}
		}
	}
	return nil
}

// Settle records the progress of the agents of sessions with the tasks of their messages, those of ended sessions,
// too, as a service does all the time.
func (t *Tasks) Settle(ctx context.Context) error {
	open, err := t.opts.Ledger.PaneMessages.Open(ctx, t.opts.Root.Path())
	if err != nil {
		return err
	}
	of := map[inbox.InboxKey][]ledger.PaneMessage{}
	for _, m := range open {
		if m.Team == SessionTeam && m.State.Ended() { // only its task is open
			of[m.InboxKey] = append(of[m.InboxKey], m)
		}
	}
	var all sync.WaitGroup
	errs := make([]error, len(of))
	for i, k := range slices.Collect(maps.Keys(of)) {
		all.Go(func() {
			record, found, err := t.opts.Ledger.Panes.Pane(ctx, k)
			if err == nil && found {
				err = t.follow(ctx, paneOf(record), of[k])
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// brokenOff ends the task of a message whose turn has no end in the transcript once the agent
// has been idle for a while: an ESC before the agent's first text is not recorded.
func (t *Tasks) brokenOff(ctx context.Context, of Pane, m ledger.PaneMessage) error {
	why, err := t.views.atWork(ctx, of, true)
	if err != nil {
		return err
	}
	t.mu.Lock()
	since, idle := t.idle[m.UUID]
	switch {
	case why != "":
		delete(t.idle, m.UUID)
	case !idle:
		t.idle[m.UUID] = time.Now()
	}
	t.mu.Unlock()
	if why != "" || !idle || time.Since(since) < t.timing.lag {
		return nil
	}
	return t.lose(ctx, m, "its turn was broken off")
}

// lose ends the task of a message whose end can no longer be seen.
func (t *Tasks) lose(ctx context.Context, m ledger.PaneMessage, why string) error {
	ended, err := t.opts.Ledger.PaneMessages.EndTasks(ctx, m.InboxKey, ledger.TaskEnd{Lost: why}, m.UUID)
	if err == nil && len(ended) > 0 {
		t.changed(m.InboxKey)
		err = t.notify(ctx)
	}
	return err
}

// ended says why the agent in a pane cannot continue any task; "" if it can.
func (t *Tasks) ended(ctx context.Context, of Pane) (lost string, err error) {
	there, err := t.tmux.look(ctx, of.Ref)
	switch {
	case errors.Is(err, tmux.ErrGone):
		return "the pane is gone", nil
	case err != nil:
		return "", err
	case there.Dead:
		return "the program in the pane has ended", nil
	}
	if of.Profile != tmux.Claude || t.views.process(of.Ref.PID).PID != 0 {
		return "", nil
	}
	reason, _, err := t.tmux.held(ctx, of.Ref, of.Profile, tmux.Queued)
	if reason == tmux.NotAgent && of.Ref.PID != 0 && there.PID == of.Ref.PID {
		return "a shell runs in the pane", err
	}
	return "", err
}

// endTasks ends the tasks of the messages to a pane that were in the turn of one, which is
// over. If the agent is idle, turns that have ended need not be final.
func (t *Tasks) endTasks(ctx context.Context, k inbox.InboxKey, open []ledger.PaneMessage, found map[string]progress, one progress, idle bool) error {
	var uuids []string
	for _, m := range open {
		if s := found[Nonce(m.UUID)]; s.over() && (s.final || idle) && s.answer == one.answer && s.saidAt.Equal(one.saidAt) && s.interrupted == one.interrupted {
			uuids = append(uuids, m.UUID)
		}
	}
	end := ledger.TaskEnd{At: one.endedAt, Answer: one.answer, Said: one.saidAt}
	if one.interrupted {
		end.Lost = "a person interrupted it"
	}
	ended, err := t.opts.Ledger.PaneMessages.EndTasks(ctx, k, end, uuids...)
	if err != nil {
		return err
	}
	if len(ended) > 0 {
		t.changed(k)
	}
	return t.notify(ctx)
}

// Stopped records that a turn of an agent has ended, and notifies the senders of messages
// whose tasks have ended with it. It waits until the program has written the end of the turn
// into the transcript, but not longer than ctx. The hook must be one for which the program
// waits before it begins another turn.
func (t *Tasks) Stopped(ctx context.Context, s Stop) error {
	keep := context.WithoutCancel(ctx) // a record is never left half done
	messages, err := t.opts.Ledger.PaneMessages.Open(keep, t.opts.Root.Path())
	if err != nil {
		return err
	}
	messages = slices.DeleteFunc(messages, func(m ledger.PaneMessage) bool { return m.State == ledger.Claimed })
	if len(messages) == 0 {
		return t.notify(keep)
	}
	all, err := t.opts.Ledger.Panes.List(keep, t.opts.Root.Path())
	if err != nil {
		return err
	}
	here := func(k inbox.InboxKey) bool {
		return s.PaneID != "" && slices.ContainsFunc(all, func(p ledger.Pane) bool { return p.InboxKey == k && p.ID == s.PaneID && p.Server == s.Server })
	}
	var found map[string]progress
	if s.Transcript != "" {
		found = t.transcripts.found(s.Transcript)
	}
	// Messages to other agents are left out, so that their programs need not wait.
	messages = slices.DeleteFunc(messages, func(m ledger.PaneMessage) bool {
		_, recorded := found[Nonce(m.UUID)]
		return !recorded && !here(m.InboxKey)
	})
	complete := false
	if s.Transcript != "" && len(messages) > 0 {
		found, complete = t.awaitEnd(ctx, s, messages)
	}
	if messages, err = t.begun(ctx, messages); err != nil {
		return err
	}
	byPane := map[inbox.InboxKey][]ledger.PaneMessage{}
	for _, m := range messages {
		byPane[m.InboxKey] = append(byPane[m.InboxKey], m)
	}
	for k, list := range byPane {
		err = errors.Join(err, t.stopped(keep, k, here(k), list, found, complete, s))
	}
	return errors.Join(err, t.notify(keep))
}

// begun waits until messages that are being delivered are confirmed, or ctx ends: a turn can
// end before its message is confirmed. It returns the messages with open tasks.
func (t *Tasks) begun(ctx context.Context, messages []ledger.PaneMessage) (open []ledger.PaneMessage, err error) {
	for _, m := range messages {
		if !m.Task.Open() {
			m, err = t.queue.until(ctx, m.UUID, func(m ledger.PaneMessage) (bool, error) { return m.State.Ended(), nil })
			if err != nil && ctx.Err() == nil {
				return nil, err
			}
		}
		if m.Task.Open() {
			open = append(open, m)
		}
	}
	return open, nil
}

// awaitEnd reads the transcript until the end of the turn is in it, or ctx ends: the hook is
// called up to 0.8 s before the program has written the last records of the turn. complete
// is true if the end is there.
func (t *Tasks) awaitEnd(ctx context.Context, s Stop, messages []ledger.PaneMessage) (found map[string]progress, complete bool) {
	called := time.Now()
	tick := time.NewTicker(t.timing.record)
	defer tick.Stop()
	for {
		found = t.transcripts.found(s.Transcript)
		end := t.transcripts.lastStop(s.Transcript)
		complete = !end.at.Before(called.Add(-t.timing.recent)) && (s.Answer == "" || strings.TrimSpace(end.said.Text) == strings.TrimSpace(s.Answer))
		// An earlier turn may have ended just before, with the same last text.
		given := slices.ContainsFunc(messages, func(m ledger.PaneMessage) bool { s := found[Nonce(m.UUID)]; return s.given && !s.over() })
		if complete && !given {
			return found, true
		}
		select {
		case <-ctx.Done():
			return found, complete
		case <-tick.C:
		}
	}
}

// stopped is Stopped for the messages of one pane whose tasks are open. All records of an
// incomplete transcript belong to the turn that ended, or are older: the program begins no
// other turn before the hook has ended. here means that the agent is in that pane.
func (t *Tasks) stopped(ctx context.Context, k inbox.InboxKey, here bool, messages []ledger.PaneMessage, found map[string]progress, complete bool, s Stop) (err error) {
	// uuids by end: an earlier turn may have ended before its message was recorded as sent.
	over, counted := map[ledger.TaskEnd][]string{}, false
	for _, m := range messages {
		at, recorded := found[Nonce(m.UUID)]
		switch {
		case recorded && at.given && (at.over() || !complete):
			end := ledger.TaskEnd{Answer: s.Answer}
			if at.over() {
				end.At = at.endedAt
				if at.answer != "" {
					end.Answer, end.Said = at.answer, at.saidAt
				}
			}
			over[end] = append(over[end], m.UUID)
		case recorded && at.given:
			// In the next turn: the hook was late.
		case recorded:
			// The transcript will show when the model is given it.
			if err := t.opts.Ledger.PaneMessages.TaskRecorded(ctx, m.UUID, s.Transcript); err != nil {
				return err
			}
		case m.Task == ledger.TaskStaged, m.Task == ledger.TaskArmed:
			counted = counted || here
		}
	}
	var ended []string
	for end, uuids := range over {
		now, eerr := t.opts.Ledger.PaneMessages.EndTasks(ctx, k, end, uuids...)
		ended, err = append(ended, now...), errors.Join(err, eerr)
	}
	if err == nil && counted {
		var one string
		if one, err = t.opts.Ledger.PaneMessages.NextTurnEnded(ctx, k, s.Answer); one != "" {
			ended = append(ended, one)
		}
	}
	if len(ended) > 0 || counted {
		t.changed(k)
	}
	return err
}

// Answer returns the agent's answer to a message as a row of an inbox; nil while the task is
// open, or if no answer is known. done reports whether the task has ended. [ErrUnknown].
func (t *Tasks) Answer(ctx context.Context, uuid string) (row []byte, done bool, err error) {
	m, err := t.queue.Message(ctx, uuid)
	return m.Answer, m.Task == ledger.TaskEnded, err
}

// AwaitAnswer waits until the task of a message has ended, or the message has failed, or ctx ends. It follows the
// task itself, so that it needs no service. If the agent of a session writes to the person after its model was given
// the message, that text is the answer, even before the task has ended; direct is then true.
func (t *Tasks) AwaitAnswer(ctx context.Context, uuid string) (m ledger.PaneMessage, direct bool, err error) {
	var answer []byte
	m, err = t.queue.until(ctx, uuid, func(m ledger.PaneMessage) (bool, error) {
		over := m.Task == ledger.TaskEnded || m.State.Ended() && m.State != ledger.Done
		if m.Team == SessionTeam && m.State == ledger.Done && ctx.Err() == nil {
			said, err := t.written(ctx, m)
			if answer = said; said != nil || err != nil {
				return true, err
			}
		}
		if over || ctx.Err() != nil {
			return m.Task == ledger.TaskEnded || ctx.Err() == nil, nil
		}
		return false, t.followOne(ctx, m)
	})
	if answer != nil {
		m.Answer, direct = answer, true
	}
	return m, direct, err
}

// written returns the first message of a session's agent to the person in the turn of a message; nil without one.
func (t *Tasks) written(ctx context.Context, to ledger.PaneMessage) ([]byte, error) {
	all, err := t.opts.Ledger.Person.Said(ctx, to.Root)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s ledger.Said) bool {
		return s.Key.Team != to.Team || s.From != to.Inbox || !s.At.After(to.SentAt) || to.Task == ledger.TaskEnded && s.At.After(to.TaskAt)
	})
	if len(all) == 0 {
		return nil, nil
	}
	record, found, err := t.opts.Ledger.Panes.Pane(ctx, to.InboxKey)
	if err != nil || !found {
		return nil, err
	}
	is, _ := t.transcripts.proof(paneOf(record), to).find(ctx)
	for _, s := range all {
		if is.given && s.At.After(is.at) {
			return s.Raw, nil
		}
	}
	return nil, nil
}

// AwaitGiven waits until the model of the agent was given a message, or the message has failed, or ctx ends. Like
// [Tasks.AwaitAnswer] it needs no service, but only a service sends a message again that a session has lost.
func (t *Tasks) AwaitGiven(ctx context.Context, uuid string) (ledger.PaneMessage, error) {
	return t.queue.until(ctx, uuid, func(m ledger.PaneMessage) (bool, error) {
		if m.Task == ledger.TaskGiven || m.Task == ledger.TaskEnded || m.State.Ended() && m.State != ledger.Done {
			return true, nil
		}
		return false, t.followOne(ctx, m)
	})
}

// followOne is follow for one message.
func (t *Tasks) followOne(ctx context.Context, m ledger.PaneMessage) error {
	record, found, err := t.opts.Ledger.Panes.Pane(ctx, m.InboxKey)
	if err == nil && found && m.Task.Open() {
		err = t.follow(ctx, paneOf(record), []ledger.PaneMessage{m})
	}
	if ctx.Err() != nil {
		err = nil // it is followed later
	}
	return err
}

// Notices returns the notifications for the person that were not dismissed, oldest first.
func (t *Tasks) Notices(ctx context.Context) (list []Notice, err error) {
	ended, err := t.opts.Ledger.PaneMessages.EndedTasks(ctx, t.opts.Root.Path())
	for _, m := range ended {
		if m.NotifyTo == (inbox.InboxKey{}) {
			list = append(list, noticeOf(m))
		}
	}
	return list, err
}

func noticeOf(m ledger.PaneMessage) Notice {
	text := fmt.Sprintf("%s has ended the task of message %s (%s).", m.Inbox, Nonce(m.UUID), excerpt.Line(string(m.Raw), 60))
	var answer struct{ Text string }
	switch {
	case m.Lost != "":
		text = fmt.Sprintf("%s did not end the task of message %s (%s), as far as can be seen: %s.", m.Inbox, Nonce(m.UUID), excerpt.Line(string(m.Raw), 60), m.Lost)
	case json.Unmarshal(m.Answer, &answer) == nil && answer.Text != "":
		text += " It said: " + excerpt.Line(answer.Text, 1000)
	}
	return Notice{ID: m.UUID, At: m.TaskAt, Lost: m.Lost, Text: text, PaneMessage: m}
}

// notify sends the notifications that agents asked for and have not got yet. One that fails
// is sent later.
func (t *Tasks) notify(ctx context.Context) error {
	_, err := t.notifyAll(ctx)
	return err
}

// notifyAll is notify, and reports whether a notification failed.
func (t *Tasks) notifyAll(ctx context.Context) (left bool, err error) {
	ended, err := t.opts.Ledger.PaneMessages.EndedTasks(ctx, t.opts.Root.Path())
	for _, m := range ended {
		if m.NotifyTo == (inbox.InboxKey{}) {
			continue
		}
		nerr := t.notifyAgent(ctx, m)
		if errors.Is(nerr, ledger.ErrWritten) {
			nerr = nil // by another process, at the same time
		}
		if gone(nerr) {
			nerr = t.opts.Ledger.PaneMessages.NotifyPerson(ctx, m.UUID)
		} else if nerr == nil {
			nerr = t.opts.Ledger.PaneMessages.Notified(ctx, m.UUID)
		}
		if nerr == nil {
			t.changed(m.InboxKey)
			continue
		}
		left = true
		if t.first(m.UUID) {
			t.opts.Warn(fmt.Errorf("notify %s@%s: %w", m.NotifyTo.Inbox, m.NotifyTo.Team, nerr))
		}
	}
	return left, err
}

// first reports whether it is called with a text for the first time.
func (s *shared) first(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.warned[text]
	s.warned[text] = true
	return !again
}

// gone reports whether an error says that the recipient of a notification does not exist any more.
func gone(err error) bool {
	return errors.Is(err, teams.ErrTeamGone) || errors.As(err, new(*teams.NotFoundError)) || errors.As(err, new(*NotFoundError))
}

// notifyAgent puts a notification into an inbox. The id is derived from the message, so that a
// second notification is not written.
func (t *Tasks) notifyAgent(ctx context.Context, m ledger.PaneMessage) error {
	n, id := noticeOf(m), ledger.DeriveID(ledger.PaneIDs, "done", m.UUID)
	summary := m.Inbox + " has ended a task"
	if m.NotifyTo.Team == Team {
		to, err := t.registry.Find(ctx, m.NotifyTo.Inbox)
		if err == nil && to.InboxKey != m.NotifyTo {
			err = &NotFoundError{Name: m.NotifyTo.Inbox}
		}
		if err == nil {
			_, _, err = t.queue.Put(ctx, to, Message{ID: id, From: m.Inbox, Text: excerpt.Line(n.Text, 1500), Summary: summary})
		}
		return err
	}
	team, err := t.opts.Root.Team(m.NotifyTo.Team)
	if err != nil {
		return err
	}
	defer team.Close()
	c, err := team.Config(ctx)
	if err != nil {
		return err
	}
	if c.Instance().CreatedAt != m.NotifyTo.CreatedAt {
		return teams.ErrTeamGone
	}
	sender, err := mail.New(ctx, mail.Options{Team: team, Locker: t.opts.Locker, Config: c, Ledger: t.opts.Ledger, From: m.Inbox})
	if err != nil {
		return err
	}
	member, err := sender.Resolve(m.NotifyTo.Inbox, false)
	if err != nil {
		return err
	}
	_, err = sender.Put(ctx, member, mail.Message{ID: id, Text: n.Text, Summary: summary}, inbox.AppendOptions{})
	return err
}

// left settles the messages of a process that has ended, and returns the others. A message that its model was not
// given waits again. If the model was given it, and the transcript has no end of its turn, the task is lost.
func (t *Tasks) left(ctx context.Context, of Pane, now transcript.Process, open []ledger.PaneMessage, paths []string) (others []ledger.PaneMessage, err error) {
	var gone []ledger.PaneMessage
	for _, m := range open {
		f, there, err := t.opts.Ledger.Frames.Frame(ctx, m.Frame)
		if err != nil {
			return nil, err
		}
		if there && (f.Session == sessionAt(now) || t.sessions.ending(f.Session, now)) {
			others = append(others, m)
		} else {
			gone = append(gone, m)
		}
	}
	if len(gone) == 0 {
		return others, nil
	}
	var again, lost []string
	found := t.transcripts.found(paths...) // after the process was seen to have ended, so that it has written all
	moving, copied := now.Job != "", ""    // the running turn continues where the conversation was moved
	if moving {
		copied, _ = transcript.Session(t.opts.Root.Path(), now.Cwd, now.Session)
	} else if now.PID == 0 { // the process in the background may not be there yet
		moving = slices.ContainsFunc(transcript.Viewers(t.opts.Root.Path()), func(v transcript.Process) bool {
			return v.Session == of.Ref.ID && teams.StateOf(v) != teams.Gone
		})
	}
	for _, m := range gone {
		switch s := found[Nonce(m.UUID)]; {
		case s.over():
			if err := t.endTasks(ctx, of.InboxKey, gone, found, s, true); err != nil {
				return nil, err
			}
		case s.given && moving && (copied == "" || s.path == copied):
			others = append(others, m)
		case s.given, s.kept:
			lost = append(lost, m.UUID)
		case !s.removed:
			again = append(again, m.UUID)
		}
	}
	if len(again)+len(lost) == 0 {
		return others, nil
	}
	err = t.opts.Ledger.PaneMessages.SendAgain(ctx, of.InboxKey, again...)
	if err == nil && len(lost) > 0 {
		_, err = t.opts.Ledger.PaneMessages.EndTasks(ctx, of.InboxKey, ledger.TaskEnd{Lost: "the session ended"}, lost...)
	}
	t.changed(of.InboxKey)
	return others, errors.Join(err, t.notify(ctx))
}
