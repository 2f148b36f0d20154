package bridgetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
)

// agents finds each agent once, under a name that reaches it, even if others have the same name.
func agents(w *world) {
	w.must(os.MkdirAll(filepath.Join(w.Root.Path(), "sessions"), 0o700))
	for i, name := range []string{"worker", "app", "app", "web"} {
		pid := []int{os.Getpid(), os.Getppid()}[i%2]
		w.must(os.WriteFile(filepath.Join(w.Root.Path(), "sessions", fmt.Sprint(i, ".json")), fmt.Appendf(nil,
			`{"pid":%d,"sessionId":"s-%d","cwd":"/work","version":"2.1.330","startedAt":%d,"name":%q,"status":"idle"}`, pid, i, 1_700_000_000_000+i, name), 0o600))
	}
	all, err := w.b.Agents(w.Context())
	if err != nil || len(all.Unknown) > 0 {
		w.Errorf("unknown: %+v, %v", all.Unknown, err)
	}
	find := func(name string) (found api.Agent) {
		for _, a := range all.Agents {
			if a.Name == name {
				if found.Name != "" {
					w.Errorf("two are called %s", name)
				}
				found = a
			}
		}
		return found
	}
	member := find("worker@" + newer)
	if member.Team != newer || member.Member != "worker" || member.Kind != "member" || member.Way != api.WayInbox || member.Does == "" || !strings.Contains(member.Promise, "read back") {
		w.Errorf("the member is %+v, of %+v", member, all.Agents)
	}
	if list, err := w.b.Status(w.Context(), newer, "worker"); err != nil || len(list) != 1 || list[0].Way != member.Way || list[0].Promise != member.Promise {
		w.Errorf("its status is %+v, %v", list, err)
	}
	for name, want := range map[string]api.Agent{
		"s-0": {Team: api.TeamSessions, Member: "worker", Session: "s-0"}, // a member has its name
		"s-1": {Team: api.TeamSessions, Member: "s-1", Session: "s-1"},    // another session has this name, too
		"s-2": {Team: api.TeamSessions, Member: "s-2", Session: "s-2"},
		"web": {Team: api.TeamSessions, Member: "web", Session: "s-3"},
	} {
		got := find(name)
		if got.Team != want.Team || got.Member != want.Member || got.Session != want.Session || got.Kind != "session" || got.Cwd != "/work" {
			w.Errorf("%s is %+v, want %+v", name, got, want)
		}
		if got.Way != "" || !strings.Contains(got.Promise, "cannot be written to") { // it has no socket
			w.Errorf("%s is reached by %q: %s", name, got.Way, got.Promise)
		}
	}
	if i := slices.IndexFunc(all.Agents, func(a api.Agent) bool { return a.Way == "" }); i < 0 || slices.ContainsFunc(all.Agents[i:], func(a api.Agent) bool { return a.Way != "" }) {
		w.Errorf("those that can be written to are not first: %+v", all.Agents)
	}
}

// sessions form a team, in which the person has names of its own. It lists a session that has ended if messages wait
// for it, but a broadcast leaves that session out.
func sessions(w *world) {
	_, err := w.b.Team(w.Context(), api.TeamSessions)
	w.fails(err, api.CodeNotFound)
	l := w.ledger()
	for i, name := range []string{"api", "web"} {
		s, err := l.Panes.AddSession(w.Context(), ledger.Pane{
			InboxKey: inbox.InboxKey{Root: w.Root.Path(), Inbox: name}, ID: fmt.Sprint("5e55104e-0000-4000-8000-00000000000", i), PID: 1<<22 + i, Profile: "session", Cwd: "/work",
		})
		w.must(err)
		_, _, err = l.PaneMessages.Add(w.Context(), ledger.PaneMessage{Policy: api.PolicyQueued, Delivery: ledger.Delivery{
			UUID: fmt.Sprint("de11fe4a-0000-4000-8000-00000000000", i), InboxKey: s.InboxKey, ID: fmt.Sprint("m-", i), From: "user", Kind: "message", Raw: []byte("hello"), Person: true, Isolated: true,
		}}, [32]byte{byte(i)})
		w.must(err)
	}
	w.must(l.Teams.Joined(w.Context(), ledger.Join{Root: w.Root.Path(), Team: api.TeamSessions, CreatedAt: ledger.SessionTeamCreated, Member: "boss"}))
	w.must(l.Teams.Joined(w.Context(), ledger.Join{Root: w.Root.Path(), Team: api.TeamPanes, CreatedAt: ledger.SessionTeamCreated, Member: "other"}))
	d, err := w.b.Team(w.Context(), api.TeamSessions)
	w.must(err)
	if d.Team.Team != api.TeamSessions || !slices.Equal(d.Ours, []string{"user", "boss"}) || d.From != "user" {
		w.Errorf("the team is %+v", d)
	}
	_, err = w.b.Broadcast(w.Context(), api.TeamSessions, "", api.NewBroadcast{Text: "hello"})
	w.fails(err, api.CodeNotFound)
	_, err = w.b.Broadcast(w.Context(), api.TeamSessions, "", api.NewBroadcast{Text: "hello", Except: []string{"wbe"}})
	w.fails(err, api.CodeNotFound)
}

// members returns the members to whom the messages went, or would have gone.
func members(all []api.Sent) (names []string) {
	for _, s := range all {
		names = append(names, s.Member)
	}
	slices.Sort(names)
	return names
}

// personal reads the items that need the person, with the messages of all teams, and without fields for other members
// only.
func personal(w *world) {
	for team, text := range map[string]string{older: "of the older", newer: "of the newer"} {
		_, err := w.b.Send(w.Context(), team, "user", "id-"+team, api.NewMessage{Text: text, Force: true})
		w.must(err)
	}
	_, err := w.b.Send(w.Context(), newer, "worker", "", api.NewMessage{Text: "not to the person"})
	w.must(err)
	read := func(q api.InboxQuery) (texts []string) {
		in, err := w.b.Inbox(w.Context(), q)
		if err != nil || len(in.Problems) > 0 {
			w.Errorf("%+v: %+v, %v", q, in.Problems, err)
		}
		for _, i := range in.Items {
			if len(i.Messages) > 0 && (i.Kind != api.WaitsUnread || i.Count != len(i.Messages)) {
				w.Errorf("%+v has %d messages", i, len(i.Messages))
			}
		}
		for _, m := range in.Messages() {
			texts = append(texts, m.Team+": "+m.Text)
		}
		return texts
	}
	want := []string{older + ": hello user reply", older + ": of the older", newer + ": of the newer"} // the first was captured
	if got := read(api.InboxQuery{}); !slices.Equal(got, want) {
		w.Errorf("unread are %q", got)
	}
	_, err = w.b.MarkRead(w.Context(), older, api.MarkRead{IDs: []string{"id-" + older}})
	w.must(err)
	if got := read(api.InboxQuery{Team: older}); !slices.Equal(got, want[:1]) {
		w.Errorf("unread are %q", got)
	}
	if got := read(api.InboxQuery{Read: true}); !slices.Equal(got, want) {
		w.Errorf("all are %q", got)
	}
	_, err = w.b.Inbox(w.Context(), api.InboxQuery{Team: "nobody"})
	w.fails(err, api.CodeNotFound)
}

// replies go to the senders of the messages, which stay unread.
func replies(w *world) {
	reply := func(id, to string, change func(*api.NewReply)) (api.Replied, error) {
		r := api.NewReply{To: to, NewQuestion: api.NewQuestion{NewMessage: api.NewMessage{Text: "thank you"}}}
		if change != nil {
			change(&r)
		}
		return w.b.Reply(w.Context(), id, r)
	}
	dry, err := reply("", api.LastMessage, func(r *api.NewReply) { r.DryRun = true })
	if err != nil || dry.Sent.State != api.DryRun || dry.To.Text != "hello user reply" || dry.To.Team != older || dry.To.From != "worker" {
		w.Errorf("a dry run is %+v, %v", dry, err)
	}
	for i, to := range []string{api.LastMessage, dry.To.ID, dry.To.ID[:10]} {
		done, err := reply("reply-1", to, func(r *api.NewReply) { r.Team = []string{"", older}[i%2] })
		if err != nil || done.To != dry.To || done.Sent.Team != older || done.Sent.Member != "worker" || done.Sent.ID != "reply-1" || done.Sent.Deduplicated != (i > 0) || done.Answer != nil {
			w.Errorf("to %s: %+v, %v", to, done, err)
		}
	}
	rows, err := w.Inbox(older, "worker").Read(w.Context())
	w.must(err)
	if n := len(slices.DeleteFunc(rows, func(r inbox.Row) bool { return r.Text != "thank you" })); n != 1 {
		w.Errorf("%d replies came", n)
	}
	for to, team := range map[string]string{"nosuch": "", dry.To.ID: newer, api.LastMessage: newer} {
		_, err := reply("", to, func(r *api.NewReply) { r.Team = team })
		w.fails(err, api.CodeNotFound)
	}
	_, err = reply("", api.LastMessage, func(r *api.NewReply) { r.Policy = api.PolicyUrgent })
	w.fails(err, api.CodeInvalid)
	_, err = w.b.Send(w.Context(), newer, "user", dry.To.ID, api.NewMessage{Text: "a copy of its id", From: "worker", Force: true})
	w.must(err)
	_, err = reply("", dry.To.ID, nil)
	w.fails(err, api.CodeUsage)

	// A sender can claim any time.
	for _, m := range []struct {
		team, id string
		at       time.Duration
	}{{newer, "tomorrow", 24 * time.Hour}, {older, "next-year", 365 * 24 * time.Hour}, {older, "now", 0}} {
		_, err := w.Inbox(m.team, "user").Append(w.Context(), inbox.Message{ID: m.id, From: "worker", Text: "from " + m.id, Time: time.Now().Add(m.at)}, inbox.AppendOptions{Force: true})
		w.must(err)
		if w.recorded() { // the times of records tell two inboxes apart
			j := w.journal()
			w.soon(func() bool {
				for _, err := range j.Messages.All(w.Context(), journal.Query{Team: m.team, ID: m.id}) {
					w.must(err)
					return true
				}
				return false
			})
		}
	}
	dry, err = reply("", api.LastMessage, func(r *api.NewReply) { r.DryRun = true })
	if err != nil || dry.To.ID != "now" || dry.Sent.Team != older {
		w.Errorf("the last message is %+v, %v", dry, err)
	}
}
