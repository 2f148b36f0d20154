package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/claude/session"
	"teambridge/relay/fleet"
	"teambridge/relay/pane"
	"teambridge/relay/runtimes"
	"teambridge/relay/wire"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/rawjson"
	"teambridge/teams/transcript"
)

const (
	transcriptTick = 250 * time.Millisecond // how often a followed transcript is read
	openCodeTick   = time.Second            // how often OpenCode's server is read
)

// errEnough ends an iteration whose caller has stopped.
var errEnough = errors.New("enough")

// transcriptReader yields one transcript.
type transcriptReader struct {
	*Archive
	api.TranscriptQuery
	team, who string
	tell      func(json.RawMessage, error) bool
	seen      map[string]bool // ids of yielded envelopes, if some can come again
}

// Transcript yields an agent's conversation; see [api.Bridge].
func (l *Transcripts) Transcript(ctx context.Context, team, who string, q api.TranscriptQuery) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		t := &transcriptReader{Archive: l.Archive, TranscriptQuery: q, team: team, who: who, tell: yield, seen: map[string]bool{}}
		if err := t.run(ctx); err != nil && err != errEnough {
			yield(nil, err)
		}
	}
}

func (t *transcriptReader) run(ctx context.Context) error {
	if err := t.settle(ctx); err != nil {
		return err
	}
	s, found, err := t.relayed(ctx)
	if err != nil {
		return err
	}
	if id, settings, err := t.openCode(ctx, s, found); err != nil || settings != nil {
		if err == nil {
			err = t.openCodeSession(ctx, id, *settings)
		}
		return err
	}
	path, err := t.path(ctx)
	if err != nil {
		return err
	}
	root, err := t.Opts.Root()
	if err != nil {
		return err
	}
	if !t.Follow {
		return t.all(ctx, session.Read(ctx, path, session.Options{Gone: view.Ended(root.Path(), transcript.SessionOf(path), s)}))
	}
	for path != "" {
		if path, err = t.follow(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// settle finds the agent: afterwards, either team is "" and who is a session, or the team has a member who.
func (t *transcriptReader) settle(ctx context.Context) error {
	if t.team == pane.SessionTeam {
		if some, err := t.FindSessions(ctx, []string{t.who}); err == nil {
			t.team, t.who = "", some[0].Ref.ID
		} else if !errors.As(err, new(*pane.SessionError)) {
			return err
		}
	}
	if t.team == "" {
		return nil
	}
	has, err := t.opts.HasInboxes(ctx, t.team, t.who)
	if err == nil && !has {
		err = api.Decide(api.CodeInvalid, "name its session, or see: teambridge history --team "+pane.Team, "%s is a pane, and its session is not known", t.who)
	}
	return err
}

// all yields a conversation.
func (t *transcriptReader) all(ctx context.Context, conversation iter.Seq2[wire.Envelope, error]) error {
	for e, err := range conversation {
		var line []byte
		if err == nil {
			if t.Follow && t.seen[e.ID] {
				continue
			}
			line, err = rawjson.Encode(e)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("read the transcript: %w", err)
		case !t.tell(line, nil):
			return errEnough
		}
		t.seen[e.ID] = t.Follow
	}
	return nil
}

// relayed finds the session that a relay runs, by its id or by the member.
func (t *transcriptReader) relayed(ctx context.Context) (s ledger.Session, found bool, err error) {
	lg, err := t.Ledger(ctx)
	if err != nil || lg == nil {
		return s, false, err
	}
	if t.team == "" {
		root, err := t.Opts.Root()
		if err != nil {
			return s, false, err
		}
		all, err := lg.Sessions.List(ctx, root.Path())
		if i := slices.IndexFunc(all, func(s ledger.Session) bool { return s.ID == t.who }); i >= 0 {
			s, found = all[i], true
		}
		return s, found, err
	}
	key, err := t.key(ctx)
	if err != nil {
		return s, false, err
	}
	return lg.Sessions.Session(ctx, key)
}

// key returns the inbox of the member.
func (t *transcriptReader) key(ctx context.Context) (inbox.InboxKey, error) {
	team, err := t.Open(ctx, api.Scope{Team: t.team})
	if err != nil {
		return inbox.InboxKey{}, err
	}
	defer team.Close() // it was only read
	return fleet.Key(ctx, team, t.who)
}

// openCode returns the id of an OpenCode session, and how its server is started; nil if it is no such session.
// s is the relay's session, if found.
func (t *transcriptReader) openCode(ctx context.Context, s ledger.Session, found bool) (id string, _ *ledger.Relay, err error) {
	settings := ledger.Relay{Runtime: runtimes.OpenCode, Dir: t.Dir}
	if settings.Dir == "" {
		if settings.Dir, err = os.Getwd(); err != nil {
			return "", nil, err
		}
	}
	switch {
	case t.team == "" && strings.HasPrefix(t.who, "ses_"):
		return t.who, &settings, nil
	case !found:
		return "", nil, nil
	}
	if found, err = t.openCodeSettings(ctx, s, &settings); err != nil || !found {
		return "", nil, err
	}
	return s.ID, &settings, nil
}

// openCodeSettings finds the start settings of a session's agent, if it is one of OpenCode.
func (t *transcriptReader) openCodeSettings(ctx context.Context, s ledger.Session, settings *ledger.Relay) (found bool, err error) {
	lg, err := t.Ledger(ctx)
	if err != nil {
		return false, err
	}
	all, err := lg.Relays.List(ctx, s.Root)
	if err != nil {
		return false, err
	}
	if i := slices.IndexFunc(all, func(r ledger.Relay) bool { return r.Team == s.Team && r.Member == s.Inbox }); i >= 0 {
		*settings = all[i]
		return settings.Runtime == runtimes.OpenCode, nil
	}
	// A relay of the command run has no settings in the ledger.
	if strings.HasPrefix(s.Command, "http://") || strings.HasPrefix(s.Command, "https://") {
		settings.URL = s.Command
		return true, nil
	}
	settings.Command = strings.Fields(s.Command)
	return len(settings.Command) > 0 && strings.HasPrefix(filepath.Base(settings.Command[0]), runtimes.OpenCode), nil
}

// openCodeSession yields a session of OpenCode.
func (t *transcriptReader) openCodeSession(ctx context.Context, id string, settings ledger.Relay) (err error) {
	l := runtimes.Launch{Settings: settings, State: t.Opts.State, Env: t.Opts.Env}
	runtime, err := l.Runtime(ctx)
	if errors.As(err, new(*runtimes.ProgramError)) {
		err = &api.Decided{Err: err, Code: api.CodeNotFound, Hint: "install OpenCode with: npm install -g opencode-ai"}
	}
	if err != nil {
		return err
	}
	if c, ok := runtime.(io.Closer); ok {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	var since time.Time
	said := func(yield func(wire.Envelope, error) bool) {
		for e, err := range runtime.Conversation(ctx, id, since, !t.Follow) {
			if err == nil {
				since = time.UnixMilli(int64(e.Time))
			}
			if !yield(e, err) {
				return
			}
		}
	}
	for {
		if err := t.all(ctx, said); err != nil {
			return err
		}
		switch {
		case !t.Follow && since.IsZero():
			return api.Decide(api.CodeNotFound, "OpenCode keeps the sessions of a user in one place: look for it as that user", "OpenCode has no session %s, or nothing was said in it", id)
		case !t.Follow:
			return nil
		}
		select {
		case <-time.After(openCodeTick):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// follow yields additions to a transcript, until ctx ends or the agent begins the next transcript: /clear
// begins another session.
func (t *transcriptReader) follow(ctx context.Context, path string) (next string, err error) {
	looks := 0
	err = t.all(ctx, session.Follow(ctx, path, time.Time{}, transcriptTick, func() bool {
		if looks++; looks%4 != 0 {
			return false
		}
		now, err := t.path(ctx) // without its team, there is no next transcript
		if err == nil && now != path {
			next = now
		}
		return next != ""
	}))
	return next, err
}

// path returns the transcript of a session or of a member.
func (t *transcriptReader) path(ctx context.Context) (string, error) {
	root, err := t.Opts.Root()
	if err != nil {
		return "", err
	}
	if t.team == "" {
		if _, err := uuid.Parse(t.who); err != nil {
			return "", api.Decide(api.CodeInvalid, "give the id of a session, or a team", "%q is not the id of a session", t.who)
		}
		if path, ok := transcript.Session(root.Path(), "", t.who); ok {
			return path, nil
		}
		return "", api.Decide(api.CodeNotFound, "list the sessions with: teambridge sessions", "%s has no transcript of a session %s", root.Path(), t.who)
	}
	team, err := t.Open(ctx, api.Scope{Team: t.team})
	if err != nil {
		return "", err
	}
	defer team.Close() // it was only read
	key, err := fleet.Key(ctx, team, t.who)
	if err != nil {
		return "", err
	}
	if lg, err := t.Ledger(ctx); err != nil {
		return "", err
	} else if lg != nil {
		s, found, err := lg.Sessions.Session(ctx, key)
		if err != nil {
			return "", err
		}
		if path, ok := transcript.Session(root.Path(), "", s.ID); found && ok {
			return path, nil
		}
	}
	c, err := team.Config(ctx)
	if err != nil {
		return "", err
	}
	if paths := team.Agent(c, key.Inbox).Transcripts(); len(paths) > 0 {
		return paths[0], nil
	}
	return "", api.Decide(api.CodeNotFound, "an agent writes its transcript with its first turn", "%s of team %s has no transcript", key.Inbox, team.Name())
}
