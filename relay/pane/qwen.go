package pane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"teambridge/relay/delivery"
	"teambridge/relay/peer"
	"teambridge/relay/qwen"
	"teambridge/relay/tmux"
	"teambridge/teams/transcript"
)

// Qwen is the profile of a session of Qwen Code.
const Qwen tmux.Profile = "qwen"

// qwenAlone is the Entrypoint of a session of Qwen Code that another program runs. Other sessions have [Qwen].
const qwenAlone = "qwen-alone"

// qwenIn is the directory of Qwen Code, in which its sessions are found.
type qwenIn string

func (home qwenIn) processes() (list []transcript.Process) {
	for _, q := range qwen.Sessions(string(home)) {
		s := transcript.Process{
			PID: q.PID, ProcStart: q.Start, Session: q.ID, Version: q.Version, StartedAt: q.Begun.UnixMilli(), Cwd: q.Cwd, Name: q.Name, Socket: q.Socket,
			Interactive: q.Terminal, Entrypoint: string(Qwen), Status: q.Status, Changed: q.Changed, Path: q.Path, Home: string(home),
		}
		if !q.Terminal { // one process can have several
			s.Entrypoint, s.ProcStart = qwenAlone, s.ProcStart+"/"+q.ID
		}
		list = append(list, s)
	}
	return list
}

func (qwenIn) takes(s transcript.Process) string {
	switch _, err := os.Stat(s.Socket); {
	case s.Entrypoint == qwenAlone:
		return "the session takes no messages: another program runs it, and Qwen Code refuses them"
	case s.Socket == "":
		return "the session takes no messages: agents.crossSessionMessaging is off in the settings of Qwen Code"
	case errors.Is(err, fs.ErrNotExist):
		return "the session does not listen on its socket: end it, and resume it with qwen --resume " + s.Session
	}
	return ""
}

func (qwenIn) check(m Message) error { return peer.Message{From: m.From, Text: m.Text}.Check() }

// qwenSession is the way by the socket of a session of Qwen Code.
type qwenSession struct{ *session }

// look: the session reports that a message is in its queue, and records the message when the model is asked about it.
// A second copy under the same frame id has no effect if the process has the message.
func (w qwenSession) look(ctx context.Context, a *attempt) (facts, error) {
	var busy hold
	n, _, _ := w.incoming.mailbox.Notice(a.frame)
	switch {
	case a.frame == "" || w.now.Status == transcript.ProcessIdle:
	case n.Status == peer.Delivered:
		busy = hold{why: tmux.Busy, detail: "the session has it, and works"}
	case a.tries >= 2:
		busy = hold{why: tmux.Busy, detail: "the session works, and does not show it yet"}
	}
	return w.seen(ctx, a, busy)
}

func (w qwenSession) give(ctx context.Context, a *attempt) (facts, error) {
	m := a.message
	return w.write(ctx, a, func() error {
		// An agent always has a name, so an empty one is the person's.
		token, ok := qwen.Token(w.opts.State, w.now.Path, w.now.Session, m.From == "")
		if !ok {
			return &delivery.UnsentError{Err: errors.New("the session has just ended, or has another conversation now")}
		}
		text := fmt.Sprintf("[teambridge %s] %s", Nonce(m.UUID), m.Raw)
		return w.incoming.mailbox.SendQwen(ctx, peer.QwenSession{PID: w.now.PID, Socket: w.now.Socket, ID: w.now.Session, Token: token}, peer.Message{ID: a.frame, From: m.From, Text: text})
	})
}

// transcripts returns other recent files, too: after /clear, messages that wait in the process go into another file.
func (home qwenIn) transcripts(of Pane, since time.Time) (paths []string) {
	if path, ok := qwen.Chat(string(home), of.Cwd, of.Ref.ID); ok {
		paths = append(paths, path)
	}
	for _, path := range qwen.Recent(string(home), of.Cwd, since.Add(-2*time.Second)) { // a file system may have coarse times
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// chat processes one line of a transcript of Qwen Code. A message is recorded when the model is asked about it, and
// given with the next answer of the model. If the API fails, Qwen Code asks again and again, and records each time.
func (c *conversation) chat(line []byte) {
	e, ok := qwen.Parse(line)
	if !ok {
		return
	}
	switch e.Kind {
	case qwen.Begun, qwen.Mail:
		for _, s := range c.open {
			s.interrupted = s.interrupted || !s.ended // the transcript does not show that the person interrupted a turn
		}
		c.begin()
		if at := marker().FindStringSubmatchIndex(e.Text); e.Kind == qwen.Mail && at != nil && at[0] == 0 {
			c.keep(e.Text[at[2]:at[3]], e.Text[at[1]:])
		}
	case qwen.Worked:
		c.worked(e.At, "")
	case qwen.Ended:
		c.worked(e.At, "")
		for _, s := range c.open {
			s.ended, s.endedAt, s.answer, s.saidAt = true, e.At, e.Text, e.At
		}
	}
}
