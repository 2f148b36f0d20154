package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/fleet"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// The number of deliveries in an answer.
const defaultDeliveries, maxDeliveries = 100, 500

func (s *Server) relays(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Relays(r.Context(), p.text("team"))
}

// relay returns the relay with an id.
func (s *Server) relay(ctx context.Context, id string) (api.RelayEntry, error) {
	list, err := s.local.Relays(ctx, "")
	if err != nil {
		return api.RelayEntry{}, err
	}
	i := slices.IndexFunc(list, func(e api.RelayEntry) bool { return e.ID == id })
	if i < 0 {
		return api.RelayEntry{}, noRelay(id)
	}
	return list[i], nil
}

// addedRelay is [Server.relay] for a relay that was added to the service.
func (s *Server) addedRelay(ctx context.Context, id string) (api.RelayEntry, error) {
	e, err := s.relay(ctx, id)
	if err == nil && e.Created == nil {
		hint, reason := view.Elsewhere(e)
		err = api.Decide(api.CodeConflict, hint, "%s", reason)
	}
	return e, err
}

func noRelay(id string) error {
	return api.Decide(api.CodeNotFound, "GET /v1/relays lists the relays", "there is no relay %s", id)
}

func (s *Server) addRelay(w http.ResponseWriter, r *http.Request) (any, error) {
	n, err := body[api.NewRelay](r)
	if err != nil {
		return nil, err
	}
	settings := ledger.Relay{
		Team: n.Team, Member: n.Member, Runtime: n.Runtime, Command: n.Command, URL: n.URL, PasswordFile: n.PasswordFile, Profile: n.Profile,
		Plain: n.Plain, Dir: n.Dir, OnCut: n.OnCut, Permissions: n.Permissions, Mode: n.Mode, OwnTeam: n.CreateTeam,
	}
	if n.IdleExit != "" {
		if settings.IdleExit, err = time.ParseDuration(n.IdleExit); err != nil {
			return nil, api.Decide(api.CodeInvalid, seeDocument, "idleExit: %q is not a duration such as 30m", n.IdleExit)
		}
	}
	added, isNew, err := s.fleet.Add(r.Context(), settings)
	if setting, invalid := errors.AsType[*fleet.SettingError](err); invalid {
		return nil, api.Decide(api.CodeInvalid, seeDocument, "%s", setting.Error())
	}
	if err != nil {
		return nil, err
	}
	e, err := s.relay(r.Context(), added.ID)
	if err != nil {
		return nil, err
	}
	w.Header().Set("Location", "/v1/relays/"+added.ID)
	if isNew {
		return nil, write(w, http.StatusCreated, e)
	}
	return e, nil
}

func (s *Server) removeRelay(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "deleteTeam")
	deleteTeam := p.flag("deleteTeam")
	if p.err != nil {
		return nil, p.err
	}
	ctx, id := r.Context(), r.PathValue("relay")
	e, err := s.addedRelay(ctx, id)
	if err != nil {
		return nil, err
	}
	err = s.fleet.Remove(ctx, id, deleteTeam)
	if errors.Is(err, fleet.ErrUnknown) {
		err = noRelay(id)
	}
	return e, err
}

// control does something with a relay of the service, and answers with its new state.
func (s *Server) control(r *http.Request, do func(ctx context.Context, id string) error) (any, error) {
	ctx, id := r.Context(), r.PathValue("relay")
	if _, err := s.addedRelay(ctx, id); err != nil {
		return nil, err
	}
	if err := do(ctx, id); err != nil {
		return nil, err
	}
	return s.addedRelay(ctx, id)
}

func (s *Server) interruptRelay(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.control(r, func(ctx context.Context, id string) error {
		err := s.fleet.Interrupt(ctx, id)
		switch {
		case errors.Is(err, agent.ErrNotInFlight):
			return api.Decide(api.CodeNotInFlight, "to give up a waiting message: POST /v1/deliveries/{delivery}/drop", "no turn is running")
		case errors.Is(err, fleet.ErrNotRunning), errors.Is(err, fleet.ErrUnknown):
			return api.Decide(api.CodeNotInFlight, "GET /v1/relays has the state of the relay", "the agent is not running: %s", view.Describe(err))
		}
		return err
	})
}

// retryRelay starts an agent again that was given up, or that waits for its next start.
func (s *Server) retryRelay(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.control(r, func(ctx context.Context, id string) error {
		err := s.fleet.Retry(ctx, id)
		if errors.Is(err, fleet.ErrUnknown) {
			return nil // it was just added, and is about to start
		}
		return err
	})
}

func (s *Server) permit(_ http.ResponseWriter, r *http.Request) (any, error) {
	p, err := body[api.Permit](r)
	if err != nil {
		return nil, err
	}
	return s.control(r, func(_ context.Context, id string) error {
		err := s.fleet.Answer(id, fleet.Answer(p))
		switch {
		case errors.Is(err, fleet.ErrNoQuestion), errors.Is(err, fleet.ErrUnknown):
			return api.Decide(api.CodeNotFound, seeQuestions, "there is no question %s", p.Question)
		case errors.Is(err, fleet.ErrAnswered), errors.Is(err, fleet.ErrOtherInput):
			return api.Decide(api.CodeConflict, seeQuestions, "%s", view.Describe(err))
		case errors.Is(err, fleet.ErrAnswer):
			return api.Decide(api.CodeInvalid, seeQuestions, "%s", view.Describe(err))
		}
		return err
	})
}

const seeQuestions = "nothing was changed; GET /v1/relays, or teambridge permit, lists the open questions"

// releaseRelay releases the messages that are held back from the member of a relay,
// whoever runs it.
func (s *Server) releaseRelay(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "sender")
	if p.err != nil {
		return nil, p.err
	}
	ctx := r.Context()
	e, err := s.relay(ctx, r.PathValue("relay"))
	if err != nil {
		return nil, err
	}
	t, err := s.opts.Root.Team(e.Team)
	if errors.Is(err, teams.ErrTeamGone) {
		return []api.Hold{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer t.Close()
	key, err := fleet.Key(ctx, t, e.Member)
	if err != nil {
		return nil, err
	}
	list, err := view.Release(ctx, s.ledger, key, p.text("sender"))
	if len(list) > 0 {
		s.replicator.Poke()
	}
	return list, err
}

// deliveries lists the deliveries to the member of a relay, the newest first.
func (s *Server) deliveries(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "state", "limit")
	q := ledger.DeliveryQuery{Root: s.opts.Root.Path(), Limit: p.limit(defaultDeliveries, maxDeliveries)}
	for name := range strings.SplitSeq(p.text("state"), ",") {
		state := ledger.DeliveryState(name)
		switch {
		case name == "":
		case !state.Ended() && !slices.Contains(view.Unfinished(), state):
			p.invalid("state=%s is not a state", name)
		default:
			q.States = append(q.States, state)
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	e, err := s.relay(r.Context(), r.PathValue("relay"))
	if err != nil {
		return nil, err
	}
	q.Team, q.Inbox = e.Team, e.Member
	found, err := s.ledger.Deliveries(r.Context(), q)
	list := make([]api.Delivery, 0, len(found))
	for _, d := range found {
		list = append(list, view.Delivery(d))
	}
	return list, err
}

// changeDelivery returns a handler that brings a delivery to another state.
func (s *Server) changeDelivery(change func(context.Context, string) error) func(http.ResponseWriter, *http.Request) (any, error) {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		ctx, id := r.Context(), r.PathValue("delivery")
		_, err := s.delivery(ctx, id)
		if err == nil {
			err = change(ctx, id)
		}
		if errors.Is(err, ledger.ErrUnknown) {
			return nil, noDelivery(id)
		}
		if err != nil {
			return nil, err
		}
		s.replicator.Poke()
		s.panes.Poke()
		return s.delivery(ctx, id)
	}
}

func (s *Server) delivery(ctx context.Context, id string) (api.Delivery, error) {
	found, err := s.ledger.Deliveries(ctx, ledger.DeliveryQuery{Root: s.opts.Root.Path(), UUID: id})
	if err != nil {
		return api.Delivery{}, err
	}
	if len(found) == 0 {
		return api.Delivery{}, noDelivery(id)
	}
	return view.Delivery(found[0]), nil
}

func noDelivery(id string) error {
	return api.Decide(api.CodeNotFound, "GET /v1/relays/{relay}/deliveries lists the deliveries", "there is no delivery %s", id)
}
