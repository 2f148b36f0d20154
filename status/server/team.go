package server

import (
	"context"
	_ "embed"
	"net/http"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

func (s *Server) health(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.reads.Last(r.Context()); err != nil {
		return &api.Decided{Err: err, Code: api.CodeUnavailable, Hint: "find out why with: teambridge doctor"}
	}
	return write(w, http.StatusOK, api.Health{Status: "ok"})
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) error {
	return write(w, http.StatusOK, api.ServiceVersion{Version: s.opts.Version, ReadOnly: s.opts.ReadOnly})
}

//go:embed openapi.json
var document []byte

func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document)
	return nil
}

func (s *Server) teams(w http.ResponseWriter, r *http.Request) error {
	list, err := view.Teams(r.Context(), s.opts.Root)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, list)
}

// withTeam calls do with a team.
func withTeam(root *teams.Root, name string, do func(*teams.Team) error) error {
	t, err := root.Team(name)
	if err != nil {
		return err
	}
	defer t.Close()
	return do(t)
}

func (s *Server) team(w http.ResponseWriter, r *http.Request) error {
	return withTeam(s.opts.Root, r.PathValue("team"), func(t *teams.Team) error {
		sender, err := s.sender(r.Context(), t, "")
		if err != nil {
			return err
		}
		ours, err := mail.Ours(r.Context(), s.ledger, t, sender.Config())
		if err != nil {
			return err
		}
		return write(w, http.StatusOK, api.TeamDetail{
			Team: view.Team(t, sender.Config(), time.Now()), Ours: ours, From: sender.From(), Answerable: sender.AllAnswerable(),
		})
	})
}

func (s *Server) sender(ctx context.Context, t *teams.Team, from string) (*mail.Sender, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	return mail.New(ctx, mail.Options{
		Team: t, Config: c, Locker: s.locker, Ledger: s.ledger, From: from,
		Facts:      func(member string) teams.Facts { return s.facts(ctx, t, c, member) },
		Journal:    func(context.Context) (*journal.Journal, error) { return s.journal, nil },
		Unrecorded: unrecorded(s.log),
	})
}

func (s *Server) members(w http.ResponseWriter, r *http.Request) error {
	return withTeam(s.opts.Root, r.PathValue("team"), func(t *teams.Team) error {
		list, err := view.Members(r.Context(), t)
		if err != nil {
			return err
		}
		relays, err := s.relaysOf(r.Context(), t)
		if err != nil {
			return err
		}
		for i := range list {
			if r := relays[list[i].Member]; r != nil {
				list[i].Relay = r.State
			}
		}
		return write(w, http.StatusOK, list)
	})
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	return withTeam(s.opts.Root, r.PathValue("team"), func(t *teams.Team) error {
		list, err := view.Statuses(r.Context(), s.statuses.source, t, time.Now())
		if err != nil {
			return err
		}
		relays, err := s.relaysOf(r.Context(), t)
		if err != nil {
			return err
		}
		view.WithRelays(list, relays)
		return write(w, http.StatusOK, list)
	})
}
