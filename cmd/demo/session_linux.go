package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"teambridge/relay/sim/simsession"
	"teambridge/status/api"
	"teambridge/status/bridge"
)

// session lists a session that is in no team and writes to it.
func (d *demonstration) session(ctx context.Context) error {
	const maxSocket = 107 // bytes of the path of a socket
	if len(filepath.Join(d.dir, "socks", "4194304.sock")) > maxSocket {
		d.say("a session in no team is left out: the path of its socket would be too long")
		return nil
	}
	const name, text = "docs-7b", "the release is planned for Friday"
	process, err := simsession.Begin(d.claude, "5e55104e-0000-4000-8000-000000000001", name)
	if err != nil {
		return err
	}
	defer process.End()
	list, err := d.local.Sessions(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(s api.Session) bool { return s.Name == name })
	if i < 0 || list[i].Way != api.WaySession {
		return fmt.Errorf("the session %s is not among those that can be written to: %+v", name, list)
	}
	d.say("%s is there: a session in no team (simulated), %s, which listens on a socket", name, list[i].Word)
	sentAt := time.Now()
	s, err := d.local.Send(bridge.WithPerson(ctx), api.TeamSessions, name, "", api.NewMessage{Text: text})
	if err == nil {
		d.say("→ %s  %q", name, text)
		_, err = d.local.Await(ctx, s, api.Seen, 10*time.Second)
	}
	if err != nil {
		return err
	}
	given, err := process.Texts()
	if err != nil {
		return err
	}
	if !slices.Equal(given, []string{text}) {
		return fmt.Errorf("the session %s was given %q", name, given)
	}
	d.told = len(given)
	d.say("  its model was given it, as its transcript shows after %.0f ms", ms(sentAt))
	return nil
}
