package pane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/delivery"
	"teambridge/relay/peer"
	"teambridge/relay/tmux"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

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
func (c *carrier) sendToSession(ctx context.Context, of Pane, m ledger.PaneMessage) error {
	keep := context.WithoutCancel(ctx) // what is known is recorded even if ctx has ended
	l := c.opts.Ledger
	defer c.changed(m.InboxKey)
	hold := func(reason tmux.Reason, detail string, next time.Time) error {
		return l.PaneMessages.Hold(keep, m.UUID, string(reason), detail, next)
	}
	now, err := c.sessions.process(ctx, &of)
	if err != nil {
		return err
	}
	proof := c.transcripts.proof(of, m)
	frame, tries := m.Frame, 0
	if frame != "" {
		f, found, err := l.Frames.Frame(ctx, frame)
		if err != nil || !found {
			return err
		}
		// In this order: what a process wrote before it was seen to have ended is in the transcript.
		gone := now.PID == 0 || f.Session != sessionAt(now)
		ends := gone && c.sessions.ending(f.Session, now)
		if proof.holds(ctx) {
			return c.confirmSession(keep, frame, m, proof)
		}
		tries = f.Tries
		switch {
		case m.Policy == string(ByQueue) && now.PID != 0: // another process may be about to take it out of the queue
		case m.Policy == string(ByQueue):
			return hold(tmux.Gone, "the session has ended; what is in Codex's queue comes when it is resumed", c.soon(m))
		case ends:
			return hold(tmux.Unknown, "the session is ending, and does not show it yet", c.soon(m))
		case gone:
			return ignoreMoved(l.PaneMessages.ReturnFrame(keep, frame, "the session ended before it had the message"), frame)
		}
		n, told, _ := c.incoming.mailbox.Told(toldAs(of, frame, m))
		if told {
			if ended, err := c.heed(keep, of, frame, m, n); ended || err != nil {
				return err
			}
		}
		// The time counts from when the session was last seen to ask nothing: what its person has just allowed is
		// not in the transcript at once.
		quiet := notYet(tries)
		asleep, _ := c.wakes(now)
		has := ""
		if program := c.opts.Homes.of(of.Profile); program != nil {
			has = program.has(c, now, frame, tries)
		}
		switch {
		case c.reach(now) == Outdated: // an older teambridge has written it
			return hold(tmux.Outdated, Refuses(now), c.soon(m))
		case told && n.Status == peer.Held:
			return hold(tmux.Dialog, asksFirst(of), c.soon(m))
		case now.Status == transcript.ProcessWaiting:
			return hold(tmux.Dialog, "the session does not show it, and asks its person something: perhaps whether it may come", c.soon(m))
		case asleep != "": // nor could it be written again
			return hold(asleep, "the session does not show it yet", c.soon(m))
		case has != "" && m.Policy == string(ByQueue):
			return hold(tmux.Busy, unseen(m), c.soon(m))
		case has != "":
			return hold(tmux.Busy, has, c.soon(m))
		case m.Held != string(quiet) || time.Since(m.HeldSince) < c.timing.repeat:
			return hold(quiet, unseen(m), c.soon(m))
		case m.Policy == string(ByQueue): // it stays in the queue if its person has interrupted the session; then it is not put there again
		case tries >= mostTries(of):
			return ignoreMoved(l.PaneMessages.FailFrame(keep, frame, ledger.CauseUnknown.Reason(fmt.Sprintf("the session was sent it %d times and shows nothing of it", tries)), ledger.TaskNone), frame)
		}
	} else if job := stoppedJob(of, c.opts.State); now.PID == 0 && job != "" {
		if err := c.respawn(ctx, of.Root, job); err != nil {
			return hold(tmux.Gone, fmt.Sprintf("claude respawn %s: %v", job, err), c.again(now, m))
		}
		return hold(tmux.Busy, "the session was stopped in the background, and is being started again", c.again(now, m))
	} else if held, why, err := c.heldBySession(ctx, of, now, m); err != nil || held != "" {
		return cmp.Or(err, hold(held, why, c.again(now, m)))
	}
	list, err := c.together(ctx, now, m)
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
		err = l.PaneMessages.PasteFrame(ctx, ledger.Frame{
			UUID: frame, InboxKey: m.InboxKey, Kind: ledger.FrameCommand, Bytes: bytes, Session: sessionAt(now), State: ledger.FrameWritten, At: time.Now(),
		}, uuids(list)...)
		if err != nil {
			return ignoreMoved(err, uuids(list)...)
		}
		m.SentAt = time.Now()
	}
	if err := l.Frames.Tried(keep, frame, sessionAt(now)); err != nil {
		return err
	}
	err = c.write(ctx, of.Root, now, frame, list, max(m.Tries, tries)+1)
	if unsent, ok := errors.AsType[*delivery.UnsentError](err); ok && tries == 0 {
		why := unsent.Err.Error()
		return errors.Join(ignoreMoved(l.PaneMessages.ReturnFrame(keep, frame, why), frame), hold(tmux.Unknown, why, c.again(now, m)))
	}
	return errors.Join(err, c.settle(ctx, keep, of, frame, m, notYet(tries+1), proof))
}

// mostTries is how often a frame is written to a session that shows nothing of it. Writing it again to Qwen Code is harmless: a session
// that has it only repeats its last notice, which is lost when our process is killed.
func mostTries(of Pane) int {
	if of.Profile == Qwen {
		return 5
	}
	return 2
}

// notYet is why a message is held that was written so often and of which the session shows nothing: another reason each
// time, so that the time starts again.
func notYet(tries int) tmux.Reason {
	if tries < 2 || tries%2 == 1 {
		return tmux.Unknown
	}
	return tmux.NotProven
}

// Refuses says why a session takes no messages, which [ReachOf] says of it.
func Refuses(s transcript.Process) string {
	if old := CheckVersion(s, "it"); old != nil {
		return old.Error()
	}
	if program := (Homes{}).of(ProgramOf(s)); program != nil {
		return program.takes(s)
	}
	return "the session takes no messages: it has no socket for them, nor the waiting hook (teambridge setup hooks)"
}

// asksFirst says why a message is held by a session.
func asksFirst(of Pane) string {
	if of.Profile == Qwen {
		return "held until its person allows it: with /peers, and then /peers accept, in the session"
	}
	return "held until its person allows it: the session bypasses permissions, or its settings hold messages"
}

// toldAs is the id under which a session says what becomes of a message. A session of Qwen Code repeats what it has said
// of an id, even if the message was never in its queue: so, each frame has another one.
func toldAs(of Pane, frame string, m ledger.PaneMessage) string {
	if of.Profile == Qwen {
		return frame
	}
	return m.UUID
}

// refusals say why a session has not taken a message, by what it said.
var refusals = map[peer.Status]string{
	peer.Denied: "its person did not allow it", peer.Expired: "its person did not answer whether it may come", peer.Refused: "its settings refuse messages of others",
}

// Refusal reports whether the reason of a message that was not sent is that the session, or its person, did not want it.
func Refusal(reason string) bool {
	cause, why := ledger.SplitReason(reason)
	return cause == ledger.CauseNotSent && slices.Contains(slices.Collect(maps.Values(refusals)), why)
}

// sessionAt names a session in a process.
func sessionAt(s transcript.Process) string { return strconv.Itoa(s.PID) + "@" + s.ProcStart }

// ending reports whether the process at which a message was, as sessionAt names it, still ends: first it removes its file,
// and then it writes what is missing in its transcript. One whose conversation was moved to the background gives its model nothing
// any more.
func (ss *Sessions) ending(session string, now transcript.Process) bool {
	pid, start, _ := strings.Cut(session, "@")
	n, err := strconv.Atoi(pid)
	if viewer, ok := transcript.ProcessWith(ss.opts.Root.Path(), n); ok && viewer.IsViewer() && viewer.ProcStart == start {
		info, err := os.Stat(viewer.Path) // which is not written any more
		return err == nil && time.Since(info.ModTime()) < ss.timing.settle
	}
	return err == nil && session != sessionAt(now) && teams.StateOf(transcript.Process{PID: n, ProcStart: start}) == teams.Alive
}

// soon is when to look again at a message that was written.
func (c *carrier) soon(m ledger.PaneMessage) time.Time {
	return time.Now().Add(min(time.Since(m.SentAt)/4+c.timing.look, c.timing.repeat/8))
}

// settle waits until the transcript shows a message that was just written, or the session says something of it, for
// a while. quiet is why it is held if neither happens.
func (c *carrier) settle(ctx, keep context.Context, of Pane, frame string, m ledger.PaneMessage, quiet tmux.Reason, proof *proof) error {
	end := time.NewTimer(c.timing.settle)
	defer end.Stop()
	tick := time.NewTicker(c.timing.record / 2)
	defer tick.Stop()
	for {
		if proof.holds(ctx) {
			return c.confirmSession(keep, frame, m, proof)
		}
		n, told, next := c.incoming.mailbox.Told(toldAs(of, frame, m))
		if told && n.Status != peer.Delivered {
			ended, err := c.heed(keep, of, frame, m, n)
			if !ended && err == nil {
				err = c.opts.Ledger.PaneMessages.Hold(keep, m.UUID, string(tmux.Dialog), asksFirst(of), c.soon(m))
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil // the next one finds out
		case <-end.C:
			return c.opts.Ledger.PaneMessages.Hold(keep, m.UUID, string(quiet), unseen(m), c.soon(m))
		case <-next:
		case <-tick.C:
		}
	}
}

// heed acts on what a session said of a message. ended says that its frame has ended.
func (c *carrier) heed(ctx context.Context, of Pane, frame string, m ledger.PaneMessage, n peer.Notice) (ended bool, err error) {
	l := c.opts.Ledger
	id := toldAs(of, frame, m)
	switch n.Status {
	case peer.Returned:
		c.incoming.mailbox.Forget(id)
		return true, errors.Join(ignoreMoved(l.PaneMessages.ReturnFrame(ctx, frame, n.Reason), frame), l.PaneMessages.Hold(ctx, m.UUID, string(tmux.Unknown), n.Reason, time.Now().Add(c.timing.look)))
	case peer.Dropped:
		c.incoming.mailbox.Forget(id)
		if err := ignoreMoved(l.PaneMessages.ReturnFrame(ctx, frame, "the session dropped it: "+n.Reason), frame); err != nil {
			return true, err
		}
		next := time.Now().Add(2 * c.timing.refill)
		if strings.Contains(n.Reason, "duplicate") {
			next = time.Now().Add(c.timing.repeat)
		}
		return true, l.PaneMessages.Hold(ctx, m.UUID, string(tmux.HasQueue), "the session dropped it: "+n.Reason, next)
	case peer.Denied, peer.Expired, peer.Refused:
		c.incoming.mailbox.Forget(id)
		return true, ignoreMoved(l.PaneMessages.FailFrame(ctx, frame, ledger.CauseNotSent.Reason(refusals[n.Status]), ledger.TaskNone), frame)
	}
	return false, nil
}

// confirmSession records that a session has a message, or has it otherwise than it was sent.
func (c *carrier) confirmSession(ctx context.Context, frame string, m ledger.PaneMessage, proof *proof) error {
	c.incoming.mailbox.Forget(m.UUID)
	c.incoming.mailbox.Forget(frame)
	task := ledger.TaskSent
	found, _ := proof.find(ctx)
	if found.altered(proof.text) {
		return ignoreMoved(c.opts.Ledger.PaneMessages.FailFrame(ctx, frame, Altered, ledger.TaskNone), frame)
	}
	if found.given {
		task = ledger.TaskGiven
	}
	return ignoreMoved(c.opts.Ledger.PaneMessages.ConfirmFrame(ctx, frame, "", task, found.path), frame)
}

// heldBySession says why a message must not be written to a session now; "" if it may.
func (c *carrier) heldBySession(ctx context.Context, of Pane, s transcript.Process, m ledger.PaneMessage) (tmux.Reason, string, error) {
	if s.PID == 0 {
		return tmux.Gone, over(of), nil
	}
	if held, why := c.sessions.closed(s); held != "" && !queues(s, m) {
		return held, why, nil
	}
	if m.Policy == string(tmux.WhenIdle) && s.Status != transcript.ProcessIdle {
		return tmux.Busy, cmp.Or(whyBusy(s), "the agent works"), nil
	}
	if why, detail := c.wakes(s); why != "" {
		return why, detail, nil
	}
	open, err := c.opts.Ledger.PaneMessages.List(ctx, m.InboxKey)
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
	sent, err := c.opts.Ledger.PaneMessages.SentSince(ctx, m.InboxKey, time.Now().Add(-peer.Burst*c.timing.refill))
	bucket := peer.NewBucket(c.timing.refill)
	for _, at := range sent {
		bucket.ReserveN(at, 1)
	}
	if bucket.TokensAt(time.Now()) < 1 {
		return tmux.TooSoon, "the session takes one message in two seconds now", err
	}
	return "", "", err
}

// left ends the tasks of messages that a process had that has ended, and returns the others. What its model was not
// given waits again, and nobody sees the end of what it was given.
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
	found := t.transcripts.found(paths...) // after they were seen to have ended: all that they wrote
	moving, copied := now.Job != "", ""    // to where the conversation was moved, with the turn that ran
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
