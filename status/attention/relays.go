package attention

import (
	"cmp"
	"context"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/excerpt"
)

// relayStates reads the relays of members.
type relayStates struct{ opts *Options }

// RelaysOf returns the relays of a team's members like [view.Relays], with the reasons why this service's
// relays do not run, and the oldest open question of each member.
func (c relayStates) RelaysOf(ctx context.Context, t *teams.Team) (known map[string]*api.Relay, asked map[string]*api.Question, err error) {
	if c.opts.Ledger == nil {
		return nil, nil, nil
	}
	known, err = view.Relays(ctx, c.opts.Ledger, c.opts.State, t)
	if err != nil || c.opts.Fleet == nil {
		return known, nil, err
	}
	asked = map[string]*api.Question{}
	told, err := c.opts.Ledger.Relays.List(ctx, c.opts.Root.Path())
	for _, r := range told {
		if r.Team != t.Name() {
			continue
		}
		if f, err := c.opts.Fleet.Status(r.ID); err == nil {
			name := c.opts.Root.MemberName(ctx, f.Team, f.Member)
			if known[name] == nil {
				known[name] = &api.Relay{}
			}
			addReason(known[name], f)
			if len(f.Questions) > 0 {
				asked[name] = new(api.Question(f.Questions[0]))
			}
		}
	}
	return known, asked, err
}

// addReason sets the reason why a relay of the service does not run.
func addReason(r *api.Relay, f fleet.Status) {
	if r.Running || f.Now.State == "" {
		return
	}
	switch f.Now.State {
	case relay.Idle, relay.Working, relay.Asleep, relay.BackOff: // it has begun to run since r was read
		r.State, r.Reason = string(relay.Starting), ""
	default:
		r.State, r.Reason = string(f.Now.State), f.Now.Reason
	}
}

// Relays returns the relays of one team, or of all teams if the name is empty.
func (c relayStates) Relays(ctx context.Context, team string) ([]api.RelayEntry, error) {
	if c.opts.Ledger == nil {
		return []api.RelayEntry{}, nil
	}
	list, err := view.Entries(ctx, c.opts.Ledger, c.opts.State, c.opts.Root, team)
	for i := range list {
		c.addRunState(&list[i])
	}
	return list, err
}

// addRunState adds what only the process of a relay knows: why the relay does not run, and its agent's open
// questions.
func (c relayStates) addRunState(e *api.RelayEntry) {
	if c.opts.Fleet == nil {
		if e.Created != nil && e.State == string(relay.Stopped) && e.Reason == "" {
			e.Reason = c.opts.Idle
		}
		return
	}
	now, err := c.opts.Fleet.Status(e.ID)
	if err != nil {
		return // just added or removed, or not run by this service
	}
	addReason(&e.Relay, now)
	for _, q := range now.Questions {
		e.Questions = append(e.Questions, api.Question(q))
	}
}

// maxFailed is the largest number of failed messages that are listed for one inbox.
const maxFailed = 500

// maxAsked is the largest size of a question in a snapshot, in bytes. Every stream gets every snapshot.
const maxAsked = 64 << 10

// waits returns the items for the relays of a team, identified by its creation time.
func (c relayStates) waits(ctx context.Context, createdAt int64, relays []api.RelayEntry) (list []api.Attention, err error) {
	for _, e := range relays {
		if e.Created == nil && e.Reason == view.TeamEnded {
			continue // of an earlier team with this name
		}
		add := func(a api.Attention) {
			a.Team, a.Member, a.Relay = e.Team, e.Member, e.ID
			list = append(list, a)
		}
		for _, q := range e.Questions {
			add(asksFor(q))
		}
		for _, h := range e.Held {
			add(api.Attention{
				ID: attentionID(api.WaitsHeld, h.Since, e.Team, e.Member, h.Sender), Kind: api.WaitsHeld, Since: &h.Since, From: h.Sender,
				What: "messages are held: " + h.Reason, Do: "let them through: teambridge relay release " + e.Member + "@" + e.Team + " " + h.Sender,
			})
		}
		if do := stoppedRelay(e); do != "" {
			var started time.Time
			if e.Started != nil {
				started = *e.Started
			}
			add(api.Attention{
				ID: attentionID(api.WaitsStopped, started, e.Team, e.Member), Kind: api.WaitsStopped,
				What: "the relay is " + e.State + ": " + cmp.Or(e.Reason, "its process ended"), Do: do,
			})
		}
		if e.DeadLetters == 0 {
			continue
		}
		failed, err := c.opts.Ledger.Deliveries.List(ctx, ledger.DeliveryQuery{
			Root: c.opts.Root.Path(), Team: e.Team, CreatedAt: createdAt, Inbox: e.Member, States: []ledger.DeliveryState{ledger.Failed}, Limit: maxFailed,
		})
		if err != nil {
			return nil, err
		}
		for _, d := range failed {
			add(api.Attention{
				ID: attentionID(api.WaitsLost, d.At, d.UUID), Kind: api.WaitsLost, Since: &d.At, From: d.From, Count: 1, Message: d.ID, Delivery: d.UUID,
				What: "a message failed: " + d.Reason, Do: retryOrDrop(d.UUID),
			})
		}
	}
	return list, nil
}

// retryOrDrop returns what to do about a failed delivery.
func retryOrDrop(id string) string {
	return "send it again: teambridge relay retry " + id + "; or give it up: teambridge relay drop " + id
}

// asksFor returns the item for an open question.
func asksFor(q api.Question) api.Attention {
	a := api.Attention{
		ID: q.ID, Kind: q.Kind, Since: &q.At, Question: &q, Answerable: true,
		Do: "answer it: POST /v1/questions/" + q.ID, Command: "answer it: teambridge permit " + q.ID + "; or: teambridge deny " + q.ID,
	}
	switch q.Kind {
	case api.AsksPlan:
		a.What = "asks to approve its plan"
	case api.AsksPerson:
		a.What = "asks: " + strings.Join(q.Asked(), " ")
	default:
		a.What = "wants to use " + toolWords(q.Tool)
	}
	a.What = excerpt.Bytes(a.What, maxWhat)
	size := len(q.Input) + len(q.Plan)
	for _, s := range q.Suggestions {
		size += len(s)
	}
	if a.Partial = size > maxAsked; a.Partial {
		q.Input, q.Plan, q.Suggestions = nil, "", nil
	}
	return a
}

// toolWords returns a tool's name as the runtime calls it, and the name of its MCP server, if any. The display
// name is not used, since a server can choose one that looks like the runtime's own tool.
func toolWords(tool string) string {
	if of, ok := strings.CutPrefix(tool, "mcp__"); ok {
		if server, name, ok := strings.Cut(of, "__"); ok && server != "" && name != "" {
			return name + " of the MCP server " + server + " (" + tool + ")"
		}
	}
	return tool
}

// maxWhat limits how much of an agent's text is in the line of an item, in bytes. The question itself has all of it.
const maxWhat = 1 << 10

// stoppedRelay returns the hint for a relay that stopped; empty if there is nothing to do. A relay that waits
// for its team to be created has not stopped.
func stoppedRelay(e api.RelayEntry) string {
	state := relay.State(e.State)
	switch {
	case state == relay.Dead && e.Created != nil:
		return "start it again: teambridge relay retry " + e.ID
	case state == relay.Dead, state == relay.Stopped && e.Created == nil && e.Queue > 0:
		return `run the agent again with "teambridge run"`
	case state == relay.Stopped && e.Created != nil && e.Reason == NoService:
		return "start the service: teambridge serve"
	case state == relay.Stopped && e.Created != nil && e.Reason == SilentService:
		return "see what is wrong with it: teambridge doctor"
	case state == relay.Stopped && e.Created != nil && e.Reason != "" && e.Reason != ReadOnly && e.Reason != "there is no team "+e.Team:
		return "see why with: teambridge relay list --relays"
	}
	return ""
}
