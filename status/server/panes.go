package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"teambridge/inbox/mail"
	"teambridge/relay/pane"
	"teambridge/relay/terminal"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// registered returns the registered panes if name is that of their team: none if a real team
// has the name.
func (s *Server) registered(ctx context.Context, name string) ([]pane.Pane, error) {
	if name != pane.Team {
		return nil, nil
	}
	if t, err := s.opts.Root.Team(name); err == nil {
		return nil, t.Close()
	} else if !errors.Is(err, teams.ErrTeamGone) {
		return nil, nil // so does the caller, who says what is wrong with it
	}
	return s.panes.List(ctx)
}

// seen returns what is known of panes, with what was seen of each at the last look.
func (s *Server) seen(ctx context.Context, list []pane.Pane) ([]pane.View, error) {
	views := make([]pane.View, 0, len(list))
	for _, p := range list {
		v := s.watch.view(p)
		var err error
		if v.Messages, err = s.ledger.PaneMessages(ctx, p.InboxKey); err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

func (s *Server) listPanes(_ http.ResponseWriter, r *http.Request) (any, error) {
	list, err := s.panes.List(r.Context())
	if err != nil {
		return nil, err
	}
	views, err := s.seen(r.Context(), list)
	shown := make([]api.Pane, 0, len(views))
	for _, v := range views {
		shown = append(shown, view.Pane(v))
	}
	return shown, err
}

// lookAtPane looks at a pane now, which others never do in a request.
func (s *Server) lookAtPane(_ http.ResponseWriter, r *http.Request) (any, error) {
	p, err := s.panes.Find(r.Context(), r.PathValue("pane"))
	if err != nil {
		return nil, err
	}
	v, err := s.panes.Look(r.Context(), p)
	return view.Pane(v), err
}

func (s *Server) addPane(w http.ResponseWriter, r *http.Request) (any, error) {
	n, err := body[api.NewPane](r)
	if err != nil {
		return nil, err
	}
	p, _, err := s.panes.Add(r.Context(), pane.Registration{
		Name: n.Member, Target: n.Target, Socket: n.Socket, Profile: terminal.Profile(n.Profile), Replace: n.Replace,
	})
	if err != nil {
		return nil, err
	}
	w.Header().Set("Location", "/v1/panes/"+p.Inbox)
	return nil, write(w, http.StatusCreated, view.Pane(pane.View{Pane: p}))
}

func (s *Server) removePane(_ http.ResponseWriter, r *http.Request) (any, error) {
	ctx, name := r.Context(), r.PathValue("pane")
	p, err := s.panes.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	views, err := s.seen(ctx, []pane.Pane{p})
	if err != nil {
		return nil, err
	}
	_, err = s.panes.Remove(ctx, name)
	return view.Pane(views[0]), err
}

// paneTeam answers for the team of the panes; ours are the names of the person in it.
func (s *Server) paneTeam(ctx context.Context, list []pane.Pane) (any, error) {
	ours, err := mail.OursIn(ctx, s.ledger, s.opts.Root.Path(), teams.Instance{Team: pane.Team, CreatedAt: list[0].CreatedAt})
	return api.TeamDetail{Team: view.PaneTeam(list), Ours: ours, From: mail.User}, err
}

// paneFor returns the pane that a message is typed into; found is false if it goes to an
// inbox instead.
func (s *Server) paneFor(ctx context.Context, team, member string, o api.PaneOptions) (p pane.Pane, found bool, err error) {
	list, err := s.registered(ctx, team)
	switch {
	case err != nil:
	case o.Via != "" && o.Via != api.ViaPane:
		err = api.Decide(api.CodeInvalid, seeDocument, "via: there is no %q", o.Via)
	case len(list) > 0:
		i := slices.IndexFunc(list, func(p pane.Pane) bool { return p.Inbox == member })
		if i < 0 {
			return p, false, &pane.NotFoundError{Name: member, Panes: list}
		}
		return list[i], true, nil
	case o.Via != "":
		t, err := s.opts.Root.Team(team)
		if err != nil {
			return p, false, err
		}
		defer t.Close()
		p, err = s.panes.OfMember(ctx, t, member, s.tmux)
		return p, err == nil, err
	case o != api.PaneOptions{}:
		err = onlyForPanes()
	}
	return p, false, err
}

func onlyForPanes() error {
	return api.Decide(api.CodeInvalid, "without them, it is put into the inbox", "via, policy, saveDraft and notifyOnStop are only for panes")
}

// sendToPane puts a message into the queue of a pane. It does not wait until it is typed.
func (s *Server) sendToPane(ctx context.Context, to pane.Pane, id string, m api.NewMessage) (api.Sent, error) {
	failed := api.Sent{Team: to.Team, Member: to.Inbox, ID: id, State: api.Failed}
	if len(m.Mode) > 0 || m.Isolated {
		return failed, api.Decide(api.CodeInvalid, seeDocument, "mode and isolated are only for prompts to an agent that this service relays to")
	}
	if !Person(ctx) {
		return failed, api.Decide(api.CodeForbidden, "", "only a person can send to a pane")
	}
	message := pane.Message{
		ID: id, Text: m.Text, Summary: m.Summary, Policy: terminal.Policy(cmp.Or(m.Policy, api.PolicyQueued)), SaveDraft: m.SaveDraft, Notify: m.NotifyOnStop,
	}
	var err error
	if message.From, message.NotifyTo, err = s.panes.Sender(ctx, to, m.From); err != nil {
		return failed, err
	}
	typed := terminal.Message{Nonce: "00000000", From: message.From, Text: m.Text, Policy: message.Policy}
	if err := typed.Check(); err != nil {
		return failed, api.Decide(api.CodeInvalid, "nothing was sent", "%s", strings.TrimPrefix(err.Error(), "terminal: "))
	}
	recorded, again, err := s.panes.Put(ctx, to, message)
	if err != nil {
		return failed, err
	}
	return view.PaneSent(recorded, again), nil
}

// broadcastToPanes sends a message to all panes of a list.
func (s *Server) broadcastToPanes(w http.ResponseWriter, r *http.Request, list []pane.Pane, id string, m api.NewBroadcast) (any, error) {
	if m.Via != "" {
		return nil, api.Decide(api.CodeInvalid, seeDocument, "via is not for panes")
	}
	list, err := pane.Audience(list, m.From, m.Except)
	if err != nil {
		return nil, err
	}
	answers, code := []api.Sent{}, http.StatusCreated
	for _, p := range list {
		one := id
		if id != "" {
			one += "-" + p.Inbox // each message has an id of its own
		}
		answer, err := s.sendToPane(r.Context(), p, one, api.NewMessage{Text: m.Text, Summary: m.Summary, From: m.From, PaneOptions: m.PaneOptions})
		if err != nil {
			answer.Error = new(view.Explain(err))
			code = http.StatusMultiStatus
		}
		answers = append(answers, answer)
	}
	if len(answers) == 0 {
		return nil, api.Decide(api.CodeNotFound, "", "no pane to send to")
	}
	return nil, write(w, code, answers)
}
