package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/fleet"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// How many deliveries an answer has.
const usualDeliveries, mostDeliveries = 100, 500

// relays answers with the relays that are to be run here, and those that were run
// otherwise.
func (s *Server) relays(w http.ResponseWriter, r *http.Request) error {
	ask := asked(r, "team")
	if ask.err != nil {
		return ask.err
	}
	list, err := view.Entries(r.Context(), s.ledger, s.opts.State, s.opts.Root, ask.text("team"))
	if err != nil {
		return err
	}
	for i := range list {
		s.embody(&list[i])
	}
	return write(w, http.StatusOK, list)
}

// embody adds to a relay what only whoever runs it knows: why it does not run, and
// what its agent asks.
func (s *Server) embody(e *api.RelayEntry) {
	if s.fleet == nil {
		if e.Created != nil && e.State == string(relay.Stopped) && e.Reason == "" {
			e.Reason = "the service is read-only"
		}
		return
	}
	if e.ID == "" {
		return
	}
	now, err := s.fleet.Status(e.ID)
	if err != nil {
		return // it was added this instant, or removed
	}
	if !e.Running && now.Now.State != "" {
		e.State, e.Reason = string(now.Now.State), now.Now.Reason
	}
	for _, q := range now.Questions {
		e.Questions = append(e.Questions, api.Question(q))
	}
}

// entry is one relay that is to be run, as it stands.
func (s *Server) entry(ctx context.Context, id string) (api.RelayEntry, error) {
	r, err := s.told(ctx, id)
	if err != nil {
		return api.RelayEntry{}, err
	}
	all, err := view.Entries(ctx, s.ledger, s.opts.State, s.opts.Root, r.Team)
	if err != nil {
		return api.RelayEntry{}, err
	}
	e := view.Entry(r)
	if i := slices.IndexFunc(all, func(e api.RelayEntry) bool { return e.ID == id }); i >= 0 {
		e = all[i]
	}
	s.embody(&e)
	return e, nil
}

// told is the relay of that id, as it was added.
func (s *Server) told(ctx context.Context, id string) (ledger.Relay, error) {
	all, err := s.ledger.Relays(ctx, s.opts.Root.Path())
	if err != nil {
		return ledger.Relay{}, err
	}
	i := slices.IndexFunc(all, func(r ledger.Relay) bool { return r.ID == id })
	if i >= 0 {
		return all[i], nil
	}
	if e, err := s.elsewhere(ctx, id); err != nil {
		return ledger.Relay{}, err
	} else if e != nil {
		hint, reason := view.Elsewhere(*e)
		return ledger.Relay{}, api.Decide(api.CodeConflict, hint, "%s", reason)
	}
	return ledger.Relay{}, noRelay(id)
}

// elsewhere is the relay of that id that this service was not told to run; nil if
// there is none.
func (s *Server) elsewhere(ctx context.Context, id string) (*api.RelayEntry, error) {
	all, err := view.Entries(ctx, s.ledger, s.opts.State, s.opts.Root, "")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(e api.RelayEntry) bool { return e.ID == id && e.Created == nil })
	if i < 0 {
		return nil, nil
	}
	return &all[i], nil
}

func noRelay(id string) error {
	return api.Decide(api.CodeNotFound, "GET /v1/relays lists them", "there is no relay %s", id)
}

func (s *Server) addRelay(w http.ResponseWriter, r *http.Request) error {
	var n api.NewRelay
	if err := body(r, &n); err != nil {
		return err
	}
	ctx := r.Context()
	bad := func(format string, args ...any) error {
		return api.Decide(api.CodeInvalid, "see what is taken at /openapi.json", format, args...)
	}
	added := ledger.Relay{
		Team: n.Team, Member: n.Member, Command: n.Command, Plain: n.Plain, Dir: n.Dir, OnCut: n.OnCut, Permissions: n.Permissions, Mode: n.Mode, OwnTeam: n.CreateTeam,
	}
	if n.IdleExit != "" {
		var err error
		if added.IdleExit, err = time.ParseDuration(n.IdleExit); err != nil {
			return bad("idleExit: %q is not a duration such as 30m", n.IdleExit)
		}
	}
	made, isNew, err := s.fleet.Add(ctx, added)
	if errors.Is(err, ledger.ErrConflict) {
		return api.Decide(api.CodeConflict, "GET /v1/relays lists them; DELETE takes one away", "%s", view.Describe(err))
	}
	if setting, ok := errors.AsType[*fleet.SettingError](err); ok {
		return bad("%s", setting.Error())
	}
	if err != nil {
		return err
	}
	e, err := s.entry(ctx, made.ID)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/relays/"+made.ID)
	if !isNew {
		return write(w, http.StatusOK, e)
	}
	return write(w, http.StatusCreated, e)
}

func (s *Server) removeRelay(w http.ResponseWriter, r *http.Request) error {
	ask := asked(r, "deleteTeam")
	team := ask.text("deleteTeam")
	if team != "" && team != "true" && team != "false" {
		ask.bad("deleteTeam is true or false")
	}
	if ask.err != nil {
		return ask.err
	}
	ctx, id := r.Context(), r.PathValue("relay")
	e, err := s.entry(ctx, id)
	if err != nil {
		return err
	}
	err = s.fleet.Remove(ctx, id, team == "true")
	_, occupied := errors.AsType[*teams.OccupiedError](err)
	_, another := errors.AsType[*fleet.NotOwnerError](err)
	switch {
	case occupied || another:
		return api.Decide(api.CodeConflict, "nothing was removed; without deleteTeam the relay goes, and the team stays", "%s", view.Describe(err))
	case errors.Is(err, fleet.ErrUnknown):
		return noRelay(id)
	case err != nil:
		return err
	}
	return write(w, http.StatusOK, e)
}

func (s *Server) interrupt(w http.ResponseWriter, r *http.Request) error {
	ctx, id := r.Context(), r.PathValue("relay")
	if _, err := s.told(ctx, id); err != nil {
		return err
	}
	err := s.fleet.Interrupt(ctx, id)
	switch {
	case errors.Is(err, agent.ErrNotInFlight):
		return api.Decide(api.CodeNotInFlight, "what waits can be given up: POST /v1/deliveries/{delivery}/drop", "no turn of its agent runs that could be interrupted")
	case errors.Is(err, fleet.ErrNotRunning), errors.Is(err, fleet.ErrUnknown):
		return api.Decide(api.CodeNotInFlight, "GET /v1/relays says how it stands", "its agent does not run: %s", view.Describe(err))
	case err != nil:
		return err
	}
	return s.showEntry(ctx, w, id)
}

// retryRelay tries an agent again that was given up, or that waits for its next try.
func (s *Server) retryRelay(w http.ResponseWriter, r *http.Request) error {
	ctx, id := r.Context(), r.PathValue("relay")
	if _, err := s.told(ctx, id); err != nil {
		return err
	}
	err := s.fleet.Retry(ctx, id)
	if errors.Is(err, fleet.ErrNotDead) {
		return api.Decide(api.CodeConflict, "GET /v1/relays says how it stands", "%s", view.Describe(err))
	}
	if errors.Is(err, fleet.ErrUnknown) {
		err = nil // it was added this instant, and begins
	}
	if err != nil {
		return err
	}
	return s.showEntry(ctx, w, id)
}

// releaseRelay releases what is held for the member of a relay, be it the service's or
// not. Its relay looks there every 2 s.
func (s *Server) releaseRelay(w http.ResponseWriter, r *http.Request) error {
	ask := asked(r, "sender")
	sender := ask.text("sender")
	if ask.err != nil {
		return ask.err
	}
	ctx, id := r.Context(), r.PathValue("relay")
	all, err := view.Entries(ctx, s.ledger, s.opts.State, s.opts.Root, "")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(e api.RelayEntry) bool { return e.ID == id })
	if i < 0 {
		return noRelay(id)
	}
	list := []api.Hold{}
	if t, err := s.opts.Root.Team(all[i].Team); err == nil {
		defer t.Close()
		post, err := fleet.Key(ctx, t, all[i].Member)
		if err != nil {
			return err
		}
		if list, err = view.Release(ctx, s.ledger, post, sender); err != nil {
			return err
		}
	} else if !errors.Is(err, teams.ErrTeamGone) {
		return err
	}
	if len(list) > 0 {
		s.replicator.Poke()
	}
	return write(w, http.StatusOK, list)
}

// showEntry answers with how a relay stands now.
func (s *Server) showEntry(ctx context.Context, w http.ResponseWriter, id string) error {
	e, err := s.entry(ctx, id)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, e)
}

// permit answers what an agent asks a person to allow.
func (s *Server) permit(w http.ResponseWriter, r *http.Request) error {
	var p api.Permit
	if err := body(r, &p); err != nil {
		return err
	}
	ctx, id := r.Context(), r.PathValue("relay")
	if _, err := s.told(ctx, id); err != nil {
		return err
	}
	err := s.fleet.Answer(id, p.Question, p.Allow, p.Reason)
	if errors.Is(err, fleet.ErrNoQuestion) || errors.Is(err, fleet.ErrUnknown) {
		return api.Decide(api.CodeNotFound, "GET /v1/relays has those that are open", "no question %s is open: it was answered, or its turn has ended", p.Question)
	}
	if err != nil {
		return err
	}
	return s.showEntry(ctx, w, id)
}

// deliveries answers with what was, or is to be, brought to the member of a relay,
// the newest first.
func (s *Server) deliveries(w http.ResponseWriter, r *http.Request) error {
	ask := asked(r, "state", "limit")
	q := ledger.DeliveryQuery{Root: s.opts.Root.Path(), Limit: ask.limit(usualDeliveries, mostDeliveries)}
	for name := range strings.SplitSeq(ask.text("state"), ",") {
		state := ledger.DeliveryState(name)
		switch {
		case name == "":
		case !state.Ended() && !slices.Contains(view.Unfinished(), state):
			ask.bad("state=%s is none", name)
		default:
			q.States = append(q.States, state)
		}
	}
	if ask.err != nil {
		return ask.err
	}
	ctx, id := r.Context(), r.PathValue("relay")
	if run, err := s.elsewhere(ctx, id); err != nil {
		return err
	} else if run != nil {
		q.Team, q.Inbox = run.Team, run.Member
	} else {
		told, err := s.told(ctx, id)
		if err != nil {
			return err
		}
		q.Team = told.Team
		// It may have been added for "lead" before its team was there.
		if q.Inbox, err = fleet.MemberOf(ctx, s.opts.Root, told.Team, told.Member); err != nil {
			q.Inbox = told.Member
		}
	}
	found, err := s.ledger.Deliveries(ctx, q)
	if err != nil {
		return err
	}
	list := make([]api.Delivery, 0, len(found))
	for _, d := range found {
		list = append(list, view.Delivery(d))
	}
	return write(w, http.StatusOK, list)
}

func (s *Server) retryDelivery(w http.ResponseWriter, r *http.Request) error {
	return s.move(w, r, s.ledger.Retry)
}

func (s *Server) dropDelivery(w http.ResponseWriter, r *http.Request) error {
	return s.move(w, r, s.ledger.Drop)
}

// move brings a delivery to another state.
func (s *Server) move(w http.ResponseWriter, r *http.Request, to func(context.Context, string) error) error {
	ctx, id := r.Context(), r.PathValue("delivery")
	q := ledger.DeliveryQuery{Root: s.opts.Root.Path(), UUID: id}
	unknown := api.Decide(api.CodeNotFound, "GET /v1/relays/{relay}/deliveries lists them", "there is no delivery %s", id)
	found, err := s.ledger.Deliveries(ctx, q)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return unknown
	}
	err = to(ctx, id)
	if state, ok := errors.AsType[*ledger.StateError](err); ok {
		return api.Decide(api.CodeConflict, "", "the delivery is %s: %s", state.State, state.Want)
	}
	if errors.Is(err, ledger.ErrUnknown) {
		return unknown
	}
	if err != nil {
		return err
	}
	s.replicator.Poke()
	if found, err = s.ledger.Deliveries(ctx, q); err != nil {
		return err
	}
	if len(found) == 0 {
		return unknown // it was pruned this instant
	}
	return write(w, http.StatusOK, view.Delivery(found[0]))
}
