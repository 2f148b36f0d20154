// Package bridgetest is the suite that each [api.Bridge] passes, on the files of this machine and through a service.
// It is only for tests.
package bridgetest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/teamstest"
)

// The captured teams. In the newer one, agents cannot write to "user".
const (
	older = teamstest.Older
	newer = teamstest.Newer
)

type world struct {
	*teamstest.Fixture
	*testing.T
	b api.Bridge
}

// Run runs the suite as a person. open returns a bridge to the teams of a fixture, which the suite may change.
func Run(t *testing.T, open func(*testing.T, *teamstest.Fixture) api.Bridge) {
	t.Helper()
	cases := map[string]func(*world){
		"teams": func(w *world) {
			all, err := w.b.Teams(w.Context())
			w.must(err)
			if len(all) != 2 || all[0].Team != older || all[1].Team != newer {
				w.Errorf("the teams are %+v", all)
			}
		},
		"a team": func(w *world) {
			d, err := w.b.Team(w.Context(), newer)
			w.must(err)
			if d.Team.Team != newer || d.From != "user" || d.Answerable || !slices.Equal(d.Ours, []string{"user"}) {
				w.Errorf("the team is %+v", d)
			}
			_, err = w.b.Team(w.Context(), "session-2de3961e")
			w.fails(err, api.CodeNotFound)
		},
		"members": func(w *world) {
			list, err := w.b.Members(w.Context(), newer)
			w.must(err)
			i := slices.IndexFunc(list, func(m api.Member) bool { return m.Member == "worker" })
			if i < 0 || list[0].Member != "team-lead" || list[0].Role != api.RoleLead || list[i].Role != api.RoleAgent || list[i].Team != newer {
				w.Errorf("the members are %+v", list)
			}
			list, err = w.b.Members(w.Context(), older)
			w.must(err)
			var roles []string
			for _, m := range list {
				roles = append(roles, m.Member+" "+m.Role)
			}
			if want := []string{"team-lead lead", "worker agent", "user none"}; !slices.Equal(roles, want) {
				w.Errorf("the members are %q, want %q", roles, want)
			}
			_, err = w.b.Members(w.Context(), "nobody")
			w.fails(err, api.CodeNotFound)
		},
		"control":      control,
		"deliveries":   deliveries,
		"holds":        holds,
		"panes":        panes,
		"moves":        moves,
		"no team":      func(w *world) { w.refused(api.CodeNotFound, "nobody", "worker", api.NewMessage{Text: "x"}) },
		"a bad name":   func(w *world) { w.refused(api.CodeInvalid, "..", "worker", api.NewMessage{Text: "x"}) },
		"no panes":     func(w *world) { w.refused(api.CodeNotFound, api.TeamPanes, "worker", api.NewMessage{Text: "x"}) },
		"no member":    func(w *world) { w.refused(api.CodeNotFound, newer, "wroker", api.NewMessage{Text: "x"}) },
		"blank":        func(w *world) { w.refused(api.CodeInvalid, newer, "worker", api.NewMessage{Text: " "}) },
		"a bad colour": func(w *world) { w.refused(api.CodeInvalid, newer, "worker", api.NewMessage{Text: "x", Color: "mauve"}) },
		"a protocol message": func(w *world) {
			w.refused(api.CodeRefused, newer, "worker", api.NewMessage{Text: `{"type":"shutdown_request"}`})
		},
		"a protocol message in the name of an agent": func(w *world) {
			w.refused(api.CodeRefused, newer, "worker", api.NewMessage{Text: `{"type":"shutdown_request"}`, From: "team-lead", Protocol: true})
		},
		"a mode without a relay": func(w *world) {
			w.refused(api.CodeInvalid, newer, "worker", api.NewMessage{Text: "x", Mode: []byte(`{"model": "opus"}`)})
		},
		"isolated without a relay": func(w *world) {
			w.refused(api.CodeInvalid, newer, "worker", api.NewMessage{Text: "x", Isolated: true})
		},
		"a bad mode": func(w *world) {
			w.refused(api.CodeInvalid, newer, "worker", api.NewMessage{Text: "x", Mode: []byte(`{"modle": "opus"}`)})
		},
		"options of panes": func(w *world) {
			w.refused(api.CodeInvalid, newer, "worker", api.NewMessage{Text: "x", PaneOptions: api.PaneOptions{Policy: api.PolicyUrgent}})
		},
		"a way that is none": func(w *world) {
			w.refused(api.CodeInvalid, newer, "worker", api.NewMessage{Text: "x", PaneOptions: api.PaneOptions{Via: "mail"}})
		},
		"a member without a pane": func(w *world) {
			w.refused(api.CodeConflict, older, "worker", api.NewMessage{Text: "x", PaneOptions: api.PaneOptions{Via: api.ViaPane}})
		},
		"a message": func(w *world) {
			s, err := w.b.Send(w.Context(), newer, "worker", "", api.NewMessage{Text: "hello", Summary: "a greeting"})
			w.must(err)
			if s.Team != newer || s.Member != "worker" || s.ID == "" || s.State != api.Verified || s.Deduplicated || !s.Recorded {
				w.Errorf("it is %+v", s)
			}
			if last := w.last("worker"); last.Text != "hello" || last.From != "user" || last.Summary != "a greeting" || last.ID() != s.ID {
				w.Errorf("the last row is %+v", last)
			}
		},
		"the lead": func(w *world) {
			s, err := w.b.Send(w.Context(), newer, "lead", "", api.NewMessage{Text: "hello"})
			w.must(err)
			if s.Member != "team-lead" || w.last("team-lead").Text != "hello" {
				w.Errorf("it is %+v", s)
			}
		},
		"one member by each of its names": func(w *world) {
			senders := []string{"worker", "WORKER", "Worker@" + newer}
			for i, name := range []string{"lead", "team-lead", "LEAD"} {
				s, err := w.b.Send(w.Context(), newer, name, "name-1", api.NewMessage{Text: "hello", From: senders[i]})
				w.must(err)
				if s.Member != "team-lead" || s.Deduplicated != (i > 0) {
					w.Errorf("to %s from %s: %+v", name, senders[i], s)
				}
			}
			w.once("team-lead", "hello")
			_, err := w.b.Send(w.Context(), newer, "WORKER", "name-2", api.NewMessage{Text: "yes", From: "lead"})
			w.must(err)
			if last := w.last("worker"); last.From != "team-lead" || last.Text != "yes" {
				w.Errorf("the last row is %+v", last)
			}
			only := func(what, id string, ids []string, err error) {
				w.Helper()
				ours := slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, "name-") })
				if err != nil || !slices.Equal(ours, []string{id}) {
					w.Errorf("%s: %q, %v; want %s", what, ours, err, id)
				}
			}
			read := func(q api.Reading) (ids []string, err error) {
				found, err := w.b.Read(w.Context(), newer, q)
				for _, m := range found.Messages {
					ids = append(ids, m.ID)
				}
				return ids, err
			}
			recorded := func(q api.MessageQuery) (ids []string, err error) {
				page, err := w.b.Messages(w.Context(), newer, q)
				for _, m := range page.Messages {
					ids = append(ids, m.ID)
				}
				return ids, err
			}
			ids, err := read(api.Reading{Inboxes: []string{"Lead"}, From: "WORKER"})
			only("in the inbox of Lead", "name-1", ids, err)
			ids, err = recorded(api.MessageQuery{Inbox: "LEAD", From: "Worker"})
			only("recorded to LEAD", "name-1", ids, err)
			ids, err = recorded(api.MessageQuery{From: "lead"})
			only("recorded from lead", "name-2", ids, err)
			found, err := w.b.History(w.Context(), api.SearchQuery{Words: "hello", Team: newer, Inbox: "Lead"})
			if err != nil || len(found.Hits) != 1 || found.Hits[0].ID != "name-1" {
				w.Errorf("found %+v, %v", found, err)
			}
			w.must(os.RemoveAll(filepath.Join(w.Root.Path(), "teams", newer)))
			past, err := w.b.History(w.Context(), api.SearchQuery{Inbox: "lead", Words: "hello"})
			if err != nil || len(past.Hits) != 1 || past.Hits[0].ID != "name-1" {
				w.Errorf("once the team is gone: %+v, %v", past, err)
			}
		},
		"an id": func(w *world) {
			for i := range 2 {
				s, err := w.b.Send(w.Context(), newer, "worker", "job-1", api.NewMessage{Text: "once"})
				w.must(err)
				if s.ID != "job-1" || s.State != api.Verified || s.Deduplicated != (i == 1) {
					w.Errorf("it is %+v", s)
				}
			}
			w.once("worker", "once")
			_, err := w.b.Send(w.Context(), newer, "worker", "job-1", api.NewMessage{Text: "another"})
			w.fails(err, api.CodeIDTaken)
			w.once("worker", "once")
		},
		"a dry run": func(w *world) {
			before := w.content("worker")
			s, err := w.b.Send(w.Context(), newer, "worker", "job-1", api.NewMessage{Text: "hello", DryRun: true})
			w.must(err)
			if s.State != api.DryRun || s.Recorded || w.content("worker") != before {
				w.Errorf("it is %+v", s)
			}
			w.refused(api.CodeNotFound, newer, "wroker", api.NewMessage{Text: "x", DryRun: true})
		},
		"an inbox that nobody reads": func(w *world) {
			s, err := w.b.Send(w.Context(), newer, "nobody", "", api.NewMessage{Text: "hello", Force: true})
			w.must(err)
			if s.Reachable || s.Reach != "not-a-member" || w.last("nobody").Text != "hello" {
				w.Errorf("it is %+v", s)
			}
		},
		"a corrupt inbox": func(w *world) {
			w.must(os.WriteFile(w.Inbox(newer, "worker").Path(), []byte("[} "), 0o600))
			_, err := w.b.Send(w.Context(), newer, "worker", "", api.NewMessage{Text: "hello"})
			w.fails(err, api.CodeCorrupt)
			if w.content("worker") != "[} " {
				w.Errorf("it is %q now", w.content("worker"))
			}
		},
		"to all": func(w *world) {
			all, err := w.b.Broadcast(w.Context(), newer, "job-2", api.NewBroadcast{Text: "hello", IncludeLead: true})
			w.must(err)
			if len(all) < 2 {
				w.Fatalf("sent to %+v", all)
			}
			for _, s := range all {
				if s.State != api.Verified || s.ID != "job-2-"+s.Member || w.last(s.Member).Text != "hello" {
					w.Errorf("it is %+v", s)
				}
			}
			again, err := w.b.Broadcast(w.Context(), newer, "job-2", api.NewBroadcast{Text: "hello", IncludeLead: true})
			w.must(err)
			if slices.ContainsFunc(again, func(s api.Sent) bool { return !s.Deduplicated }) {
				w.Errorf("again: %+v", again)
			}
			for scope, team := range map[api.Scope]string{{Team: newer}: newer, {Default: newer}: newer, {Team: newer, Default: older}: newer, {Default: older}: older} {
				all, err := w.b.Broadcast(w.Context(), api.AnyTeam, "", api.NewBroadcast{Text: "in scope", Scope: &scope})
				if err != nil || len(all) == 0 || all[0].Team != team {
					w.Errorf("%+v: %+v, %v", scope, all, err)
				}
			}
			for scope, code := range map[api.Scope]api.Code{{Team: "nosuch"}: api.CodeNotFound, {}: api.CodeAmbiguousTeam} {
				_, err := w.b.Broadcast(w.Context(), newer, "", api.NewBroadcast{Text: "hello", Scope: &scope})
				w.fails(err, code)
			}
			_, err = w.b.Broadcast(w.Context(), newer, "", api.NewBroadcast{Text: "hello", Except: []string{"wroker"}})
			w.fails(err, api.CodeNotFound)
			_, err = w.b.Broadcast(w.Context(), newer, "", api.NewBroadcast{Text: " "})
			w.fails(err, api.CodeInvalid)
			for _, protocol := range []api.NewBroadcast{{Text: `{"type":"plan_approval_response"}`}, {Text: `{"type":"shutdown_request"}`, From: "Team-Lead", Protocol: true}} {
				_, err = w.b.Broadcast(w.Context(), newer, "", protocol)
				w.fails(err, api.CodeRefused)
			}
			_, err = w.b.Broadcast(w.Context(), newer, "", api.NewBroadcast{Text: "hello", PaneOptions: api.PaneOptions{SaveDraft: true}})
			w.fails(err, api.CodeInvalid)
		},
		"to all but one whose inbox is corrupt": func(w *world) {
			w.must(os.WriteFile(w.Inbox(newer, "worker").Path(), []byte("[} "), 0o600))
			all, err := w.b.Broadcast(w.Context(), newer, "", api.NewBroadcast{Text: "hello", IncludeLead: true})
			w.must(err)
			for _, s := range all {
				if corrupt := s.Member == "worker"; corrupt != (s.Error != nil) || corrupt && (s.Error.Code != api.CodeCorrupt || s.State != api.Failed) {
					w.Errorf("it is %+v", s)
				}
			}
		},
		"joining": func(w *world) {
			for range 2 {
				m, err := w.b.Join(w.Context(), newer, api.NewJoin{})
				w.must(err)
				if m != (api.Membership{Team: newer, Member: api.Guest}) {
					w.Errorf("joined as %+v", m)
				}
			}
			if d, err := w.b.Team(w.Context(), newer); err != nil || d.From != api.Guest || !d.Answerable || !slices.Equal(d.Ours, []string{"user", api.Guest}) {
				w.Errorf("the team is %+v, %v", d, err)
			}
			if s, err := w.b.Send(w.Context(), newer, "worker", "", api.NewMessage{Text: "hello"}); err != nil || w.last("worker").From != api.Guest {
				w.Errorf("sent %+v, %v", s, err)
			}
			_, err := w.b.Join(w.Context(), newer, api.NewJoin{As: "worker"})
			w.fails(err, api.CodeRefused)
			_, err = w.b.Leave(w.Context(), newer, "alice")
			w.fails(err, api.CodeNotFound)
			left, err := w.b.Leave(w.Context(), newer, "")
			w.must(err)
			if !slices.Equal(left, []api.Membership{{Team: newer, Member: api.Guest}}) {
				w.Errorf("left %+v", left)
			}
			_, err = w.b.Leave(w.Context(), newer, "")
			w.fails(err, api.CodeNotFound)
		},
		"joining under a name": func(w *world) {
			m, err := w.b.Join(w.Context(), older, api.NewJoin{As: "alice"})
			w.must(err)
			if m.Member != "alice" {
				w.Errorf("joined as %+v", m)
			}
		},
		"reading": func(w *world) {
			for _, id := range []string{"read-1", "read-2"} {
				_, err := w.b.Send(w.Context(), newer, "user", id, api.NewMessage{Text: id, Force: true})
				w.must(err)
			}
			for sent := time.Now(); time.Now().UnixMilli() == sent.UnixMilli(); { // messages of two inboxes are ordered by their times, in milliseconds
				runtime.Gosched()
			}
			_, err := w.b.Send(w.Context(), newer, "a, b", "read-3", api.NewMessage{Text: "to a name with a comma", Force: true})
			w.must(err)
			w.must(os.WriteFile(w.Inbox(newer, "worker").Path(), []byte("[} "), 0o600))
			found, err := w.b.Read(w.Context(), newer, api.Reading{})
			w.must(err)
			if n := len(found.Messages); n < 2 || found.Messages[n-1].ID != "read-3" || found.Messages[n-1].Read || len(found.Problems) != 1 || found.Problems[0].Code != api.CodeCorrupt {
				w.Errorf("read %+v", found)
			}
			for name, tc := range map[string]struct {
				q    api.Reading
				want []string
			}{
				"one inbox":        {api.Reading{Inboxes: []string{"user"}}, []string{"read-1", "read-2"}},
				"several":          {api.Reading{Inboxes: []string{"user", "a, b"}}, []string{"read-1", "read-2", "read-3"}},
				"own":              {api.Reading{Own: true}, []string{"read-1", "read-2"}},
				"after":            {api.Reading{Inboxes: []string{"user"}, After: "read-1"}, []string{"read-2"}},
				"the last":         {api.Reading{Inboxes: []string{"user"}, Limit: 1}, []string{"read-2"}},
				"of somebody else": {api.Reading{Inboxes: []string{"user"}, From: "worker"}, nil},
				"unread":           {api.Reading{Inboxes: []string{"user"}, Unread: true}, []string{"read-1", "read-2"}},
				"later":            {api.Reading{Inboxes: []string{"user"}, Since: time.Now().Add(time.Hour)}, nil},
			} {
				found, err := w.b.Read(w.Context(), newer, tc.q)
				var ids []string
				for _, m := range found.Messages {
					ids = append(ids, m.ID)
				}
				if err != nil || !slices.Equal(ids, tc.want) || found.Messages == nil {
					w.Errorf("%s: %q, %v; want %q", name, ids, err, tc.want)
				}
			}
			_, err = w.b.Read(w.Context(), newer, api.Reading{Inboxes: []string{"team-lead"}, Own: true})
			w.fails(err, api.CodeRefused)
			_, err = w.b.Read(w.Context(), newer, api.Reading{Inboxes: []string{"wroker"}})
			w.fails(err, api.CodeNotFound)
			_, err = w.b.Read(w.Context(), newer, api.Reading{After: "read-4"})
			w.fails(err, api.CodeNotFound)
			_, err = w.b.Read(w.Context(), newer, api.Reading{After: "read"})
			w.fails(err, api.CodeUsage)
		},
		"history": func(w *world) {
			for _, m := range []struct{ to, id, text string }{{"worker", "h-1", "is the build green?"}, {"user", "h-2", "the build is red"}, {"worker", "h-3", "then mend it"}} {
				_, err := w.b.Send(w.Context(), newer, m.to, m.id, api.NewMessage{Text: m.text, Force: true})
				w.must(err)
			}
			ours := func(list []api.Record) (ids []string) {
				for _, r := range list {
					if strings.HasPrefix(r.ID, "h-") {
						ids = append(ids, r.ID)
					}
				}
				return ids
			}
			all, err := w.b.Messages(w.Context(), newer, api.MessageQuery{})
			w.must(err)
			if !slices.Equal(ours(all.Messages), []string{"h-1", "h-2", "h-3"}) || all.Seq == 0 || !slices.Equal(all.Ours, []string{"user"}) {
				w.Fatalf("the history is %+v", all)
			}
			last := all.Messages[len(all.Messages)-1]
			if last.Text != "then mend it" || last.Inbox != "worker" || last.From != "user" || last.Team != newer || last.FirstSeen.IsZero() {
				w.Errorf("the last one is %+v", last)
			}
			for name, tc := range map[string]struct {
				q    api.MessageQuery
				want []string
			}{
				"an inbox":    {api.MessageQuery{Inbox: "worker"}, []string{"h-1", "h-3"}},
				"a sender":    {api.MessageQuery{From: "nobody"}, nil},
				"both ways":   {api.MessageQuery{With: "worker"}, []string{"h-1", "h-3"}},
				"the last":    {api.MessageQuery{Limit: 1}, []string{"h-3"}},
				"before":      {api.MessageQuery{Before: last.Seq}, []string{"h-1", "h-2"}},
				"from there":  {api.MessageQuery{After: last.Seq - 1}, []string{"h-3"}},
				"nothing new": {api.MessageQuery{After: last.Seq}, nil},
			} {
				page, err := w.b.Messages(w.Context(), newer, tc.q)
				if err != nil || !slices.Equal(ours(page.Messages), tc.want) || page.Messages == nil || page.More != (tc.q.Limit > 0) {
					w.Errorf("%s: %+v, %v; want %q", name, page, err, tc.want)
				}
			}
			_, err = w.b.Messages(w.Context(), "nobody", api.MessageQuery{})
			w.fails(err, api.CodeNotFound)
			_, err = w.b.Messages(w.Context(), newer, api.MessageQuery{CreatedAt: 1})
			w.fails(err, api.CodeNotFound)
			_, err = w.b.Messages(w.Context(), newer, api.MessageQuery{With: "worker", From: "user"})
			w.fails(err, api.CodeUsage)
			_, err = w.b.Messages(w.Context(), newer, api.MessageQuery{Limit: api.MaxMessages + 1})
			w.fails(err, api.CodeUsage)
		},
		"searching": func(w *world) {
			for id, text := range map[string]string{"s-1": "the zebra is striped", "s-2": "so is the Zébra crossing"} {
				_, err := w.b.Send(w.Context(), newer, "worker", id, api.NewMessage{Text: text})
				w.must(err)
			}
			for words, want := range map[string]int{"zebra": 2, "zeb*": 2, "zebra crossing": 1, `"zebra is"`: 1, "quagga": 0} {
				found, err := w.b.History(w.Context(), api.SearchQuery{Words: words})
				if err != nil || len(found.Hits) != want || found.Hits == nil || want > 0 && !slices.ContainsFunc(found.Hits[0].Snippet, func(p api.Piece) bool { return p.Match }) {
					w.Errorf("%s: %+v, %v; want %d", words, found, err, want)
				}
			}
			found, err := w.b.History(w.Context(), api.SearchQuery{Words: "zebra", Limit: 1, Inbox: "worker", Team: newer})
			if err != nil || len(found.Hits) != 1 || !found.More {
				w.Errorf("the last one is %+v, %v", found, err)
			}
			hit := found.Hits[0]
			for name, tc := range map[string]struct {
				q    api.SearchQuery
				want bool
			}{
				"from then on": {api.SearchQuery{Since: hit.FirstSeen}, true}, "later": {api.SearchQuery{Since: hit.FirstSeen.Add(time.Microsecond)}, false},
				"before": {api.SearchQuery{Until: hit.FirstSeen}, false}, "until then": {api.SearchQuery{Until: hit.FirstSeen.Add(time.Microsecond)}, true},
				"of the team": {api.SearchQuery{CreatedAt: hit.CreatedAt}, true}, "of another": {api.SearchQuery{CreatedAt: hit.CreatedAt + 1}, false},
				"before it": {api.SearchQuery{Before: hit.Seq}, false},
			} {
				tc.q.Words = "zebra"
				found, err := w.b.History(w.Context(), tc.q)
				if got := slices.ContainsFunc(found.Hits, func(h api.Hit) bool { return h.Seq == hit.Seq }); err != nil || got != tc.want {
					w.Errorf("%s: found is %v, want %v; %v", name, got, tc.want, err)
				}
			}
			_, err = w.b.History(w.Context(), api.SearchQuery{Words: " "})
			w.fails(err, api.CodeUsage)
			_, err = w.b.History(w.Context(), api.SearchQuery{Words: "zebra", Limit: api.MaxMessages + 1})
			w.fails(err, api.CodeUsage)
		},
		"the history": func(w *world) {
			for id, m := range map[string]api.NewMessage{"h-1": {Text: "the zebra is striped"}, "h-2": {Text: "quagga"}, "h-3": {Text: "so is the zebra crossing"}, "jump-1": {Text: "x"}, "jump-22": {Text: "x"}} {
				_, err := w.b.Send(w.Context(), newer, "worker", id, m)
				w.must(err)
			}
			all, err := w.b.History(w.Context(), api.SearchQuery{Team: newer, With: "worker", MessagesOnly: true, Limit: api.MaxMessages})
			if err != nil || len(all.Hits) < 3 || all.More {
				w.Fatalf("the history is %+v, %v", all, err)
			}
			for i, h := range all.Hits[1:] {
				if h.Seq >= all.Hits[i].Seq {
					w.Errorf("%d comes after %d", h.Seq, all.Hits[i].Seq)
				}
			}
			var paged []api.Hit
			for q := (api.SearchQuery{Team: newer, With: "worker", MessagesOnly: true, Limit: 1}); ; q.Before = paged[len(paged)-1].Seq {
				page, err := w.b.History(w.Context(), q)
				w.must(err)
				if paged = append(paged, page.Hits...); !page.More {
					break
				}
			}
			if !slices.EqualFunc(paged, all.Hits, func(a, b api.Hit) bool { return a.Seq == b.Seq }) {
				w.Errorf("page by page: %+v; want %+v", paged, all.Hits)
			}
			first := all.Hits[len(all.Hits)-1]
			later, err := w.b.History(w.Context(), api.SearchQuery{Team: newer, With: "worker", MessagesOnly: true, After: first.ID})
			if err != nil || len(later.Hits) != len(all.Hits)-1 {
				w.Errorf("after %s: %+v, %v", first.ID, later, err)
			}
			_, err = w.b.Send(w.Context(), older, "worker", "", api.NewMessage{Text: "x", From: "worker@" + newer})
			w.must(err)
			every, err := w.b.History(w.Context(), api.SearchQuery{With: "worker@" + newer, MessagesOnly: true})
			if err != nil || len(every.Hits) != len(all.Hits)+1 || every.Hits[0].Team != older {
				w.Errorf("with its address: %+v, %v", every, err)
			}
			for _, team := range []string{older, newer} { // not the worker of another team
				_, err := w.b.Send(w.Context(), team, "team-lead", "", api.NewMessage{Text: "x", From: "worker"})
				w.must(err)
			}
			wrote, err := w.b.History(w.Context(), api.SearchQuery{From: "worker@" + newer, MessagesOnly: true})
			if err != nil || len(wrote.Hits) < 2 || slices.ContainsFunc(wrote.Hits, func(h api.Hit) bool {
				return h.From != "worker@"+newer && (h.From != "worker" || h.Team != newer)
			}) {
				w.Errorf("from its address: %+v, %v", wrote, err)
			}
			found, err := w.b.History(w.Context(), api.SearchQuery{Words: "zebra"})
			if err != nil || len(found.Hits) != 2 {
				w.Errorf("with words: %+v, %v", found, err)
			}
			if _, err := w.b.History(w.Context(), api.SearchQuery{After: "jump-2"}); err != nil {
				w.Errorf("after jump-2, which is the beginning of one id: %v", err)
			}
			_, err = w.b.History(w.Context(), api.SearchQuery{After: "jump"}) // two ids begin with it
			w.fails(err, api.CodeUsage)
			_, err = w.b.History(w.Context(), api.SearchQuery{After: "nosuch"})
			w.fails(err, api.CodeNotFound)
			_, err = w.b.History(w.Context(), api.SearchQuery{With: "worker", From: "user"})
			w.fails(err, api.CodeUsage)
		},
		"what names mean": func(w *world) {
			for _, c := range []struct {
				scope api.Scope
				names []string
				want  api.Target
			}{
				{api.Scope{Team: newer}, []string{"worker"}, api.Target{Team: newer, Members: []string{"worker"}, Way: api.WayInbox}},
				{api.Scope{Default: older}, []string{"worker@" + newer}, api.Target{Team: newer, Members: []string{"worker"}, Way: api.WayInbox}},
				{api.Scope{Default: older}, nil, api.Target{Team: older, Way: api.WayInbox}},
				{api.Scope{Team: newer, Default: older}, []string{"worker", "user"}, api.Target{Team: newer, Members: []string{"worker", "user"}, Way: api.WayInbox}},
			} {
				if to, err := w.b.Target(w.Context(), c.scope, c.names...); err != nil || to.Team != c.want.Team || to.Way != c.want.Way || !slices.Equal(to.Members, c.want.Members) {
					w.Errorf("%+v %q: %+v, %v; want %+v", c.scope, c.names, to, err, c.want)
				}
				if len(c.names) != 1 {
					continue
				}
				if s, err := w.b.Send(w.Context(), api.AnyTeam, c.names[0], "", api.NewMessage{Text: "x", Scope: &c.scope}); err != nil || s.Team != c.want.Team || s.Member != c.want.Members[0] {
					w.Errorf("to %+v %q it sends %+v, %v", c.scope, c.names, s, err)
				}
			}
			for scope, code := range map[api.Scope]api.Code{{Team: older}: api.CodeUsage, {Team: "nosuch"}: api.CodeNotFound, {}: api.CodeAmbiguousTeam, {Dir: "/"}: api.CodeNotFound} {
				name := "nobody"
				switch code {
				case api.CodeUsage:
					name = "worker@" + newer
				case api.CodeAmbiguousTeam:
					name = "worker"
				}
				_, err := w.b.Send(w.Context(), newer, name, "", api.NewMessage{Text: "x", Scope: &scope})
				w.fails(err, code)
				_, err = w.b.Ask(w.Context(), newer, name, "", api.NewQuestion{Timeout: "1s", NewMessage: api.NewMessage{Text: "x", Scope: &scope}})
				w.fails(err, code)
			}
			_, err := w.b.Target(w.Context(), api.Scope{Team: older}, "worker@"+newer)
			w.fails(err, api.CodeUsage)
			_, err = w.b.Target(w.Context(), api.Scope{Team: "nosuch"})
			w.fails(err, api.CodeNotFound)
			_, err = w.b.Target(w.Context(), api.Scope{Team: api.TeamPanes}, "build")
			w.fails(err, api.CodeNotFound)
			_, err = w.b.Target(w.Context(), api.Scope{})
			w.fails(err, api.CodeAmbiguousTeam)
			if c := api.Choices(err); !slices.Equal(c, []string{older, newer}) {
				w.Errorf("the choices are %q", c)
			}
		},
		"a team that has ended": func(w *world) {
			_, err := w.b.Send(w.Context(), newer, "worker", "before", api.NewMessage{Text: "x"})
			w.must(err)
			_, err = w.b.History(w.Context(), api.SearchQuery{Team: newer}) // it is recorded
			w.must(err)
			w.must(os.RemoveAll(filepath.Join(w.Root.Path(), "teams", newer)))
			_, err = w.b.Target(w.Context(), api.Scope{Team: newer})
			w.fails(err, api.CodeGone)
			ended, err := w.b.EndedTeams(w.Context())
			if err != nil || len(ended) != 1 || ended[0].Team != newer || ended[0].LastHeard.IsZero() || ended[0].CreatedAt.IsZero() {
				w.Errorf("ended are %+v, %v", ended, err)
			}
		},
		"sessions": func(w *world) {
			list, err := w.b.Sessions(w.Context())
			if err != nil || list == nil || len(list) != 0 {
				w.Errorf("without a session: %+v, %v", list, err)
			}
			started := time.UnixMilli(1_700_000_000_000).UTC()
			w.must(os.MkdirAll(filepath.Join(w.Root.Path(), "sessions"), 0o700))
			w.must(os.WriteFile(filepath.Join(w.Root.Path(), "sessions", "1.json"), fmt.Appendf(nil,
				`{"pid":%d,"sessionId":"s-1","cwd":"/work","version":"2.1.330","startedAt":%d,"name":"work-c3","entrypoint":"sdk-cli","messagingSocketPath":"/x","status":"waiting","waitingFor":"permission prompt","statusUpdatedAt":%d}`,
				os.Getpid(), started.UnixMilli(), started.UnixMilli()), 0o600))
			list, err = w.b.Sessions(w.Context())
			want := api.Session{
				Name: "work-c3", Session: "s-1", PID: os.Getpid(), Cwd: "/work", Version: "2.1.330", StartedAt: started, Headless: true,
				Word: api.WordWaiting, Why: "permission prompt", WordSince: &started, Socket: true,
			}
			if err != nil || len(list) != 1 || !reflect.DeepEqual(list[0], want) {
				w.Errorf("%+v, %v; want %+v", list, err, want)
			}
			for _, odd := range []string{"-62167219200001", "-1", "0", "253402300800000", "9223372036854775807"} { // JSON cannot encode all of these times
				w.must(os.WriteFile(filepath.Join(w.Root.Path(), "sessions", "2.json"), fmt.Appendf(nil,
					`{"pid":%d,"sessionId":"s-2","cwd":"/","version":"2.1.330","startedAt":%s,"statusUpdatedAt":%[2]s,"name":"odd","status":"idle"}`, os.Getppid(), odd), 0o600))
				list, err := w.b.Sessions(w.Context())
				i := slices.IndexFunc(list, func(s api.Session) bool { return s.Session == "s-2" })
				if err != nil || len(list) != 2 || i < 0 || !list[i].StartedAt.IsZero() || list[i].WordSince != nil {
					w.Errorf("with a session that started at %s: %+v, %v", odd, list, err)
				}
			}
			w.must(os.Remove(filepath.Join(w.Root.Path(), "sessions", "2.json")))
		},
		"agents":             agents,
		"replies":            replies,
		"sessions as a team": sessions,
		"inbox":              personal,
		"changes":            changes,
		"usage":              usage,
		"findings": func(w *world) {
			r, err := w.b.Findings(w.Context(), newer, false)
			if err != nil || r.Teams != 1 || r.Findings == nil {
				w.Errorf("the findings are %+v, %v", r, err)
			}
			blocked := filepath.Join(w.Root.Path(), "teams", newer, "inboxes", "worker.json.lock")
			w.must(os.WriteFile(blocked, nil, 0o600)) // a file in place of a lock
			w.must(os.Chtimes(blocked, time.Time{}, time.Now().Add(-time.Hour)))
			r, err = w.b.Findings(w.Context(), "", false)
			i := slices.IndexFunc(r.Findings, func(f api.Finding) bool { return f.Code == "foreign_lock" })
			if err != nil || r.Teams != 2 || r.Inboxes == 0 || i < 0 || r.Findings[i].Path != blocked || r.Findings[i].Level != api.LevelProblem || r.Findings[i].Fixed {
				w.Errorf("with a file that blocks an inbox: %+v, %v", r, err)
			}
			if _, err := os.Stat(blocked); err != nil {
				w.Errorf("a look has fixed it: %v", err)
			}
			r, err = w.b.Findings(w.Context(), newer, true)
			if err != nil || !slices.ContainsFunc(r.Findings, func(f api.Finding) bool { return f.Fixed }) {
				w.Errorf("fixed: %+v, %v", r, err)
			}
			if _, err := os.Stat(blocked); !errors.Is(err, fs.ErrNotExist) {
				w.Errorf("the lock is %v", err)
			}
			_, err = w.b.Findings(w.Context(), "nosuch", false)
			w.fails(err, api.CodeNotFound)
		},
		"status": func(w *world) {
			list, err := w.b.Status(w.Context(), newer)
			w.must(err)
			i := slices.IndexFunc(list, func(s api.Status) bool { return s.Member == "worker" })
			if i < 0 || list[i].Team != newer || list[i].State == "" || list[i].Word == "" || list[i].Basis == "" {
				w.Fatalf("the status is %+v", list)
			}
			_, err = w.b.Send(w.Context(), newer, "worker", "", api.NewMessage{Text: "hello"})
			w.must(err)
			after, err := w.b.Status(w.Context(), newer)
			w.must(err)
			if len(after) != len(list) || after[i].Unread != list[i].Unread+1 {
				w.Errorf("with one more message, the status is %+v", after)
			}
			list, err = w.b.Status(w.Context(), older)
			if err != nil || len(list) != 2 || list[1].State != api.StateTerminated || list[1].Evidence.Kind != "shutdown_approved" {
				w.Errorf("the status is %+v, %v", list, err)
			}
			_, err = w.b.Status(w.Context(), "nobody")
			w.fails(err, api.CodeNotFound)
			_, err = w.b.Status(w.Context(), api.TeamPanes)
			w.fails(err, api.CodeNotFound)
		},
		"what waits": func(w *world) {
			for _, id := range []string{"n-1", "n-2"} {
				_, err := w.b.Send(w.Context(), newer, "user", id, api.NewMessage{Text: "are you there?", From: "worker", Force: true})
				w.must(err)
			}
			unread := func(team string) (found []api.Attention) {
				w.Helper()
				list, err := w.b.Attention(w.Context(), team)
				if err != nil || list == nil {
					w.Fatalf("what waits is %+v, %v", list, err)
				}
				return slices.DeleteFunc(list, func(a api.Attention) bool { return a.Kind != api.WaitsUnread || a.Team != newer })
			}
			var all []api.Attention
			w.soon(func() bool { all = unread(""); return len(all) == 1 && all[0].Count == 2 })
			if len(all) != 1 || all[0].Member != "user" || all[0].From != "worker" || all[0].Count != 2 || all[0].Message != "n-2" || all[0].Dismissable {
				w.Fatalf("unread is %+v", all)
			}
			if some := unread(newer); len(some) != 1 || some[0].ID != all[0].ID {
				w.Errorf("of the team, unread is %+v", some)
			}
			if none := unread(older); len(none) != 0 {
				w.Errorf("of another team, unread is %+v", none)
			}
			_, err := w.b.Dismiss(w.Context(), all[0].ID)
			w.fails(err, api.CodeInvalid)
			_, err = w.b.MarkRead(w.Context(), newer, api.MarkRead{IDs: []string{"n-1", "n-2"}})
			w.must(err)
			w.soon(func() bool { return len(unread(newer)) == 0 })
		},
		"dismissing": func(w *world) {
			_, err := w.b.Dismiss(w.Context(), "failed/nothing")
			w.fails(err, api.CodeNotFound)
			w.Make("crew", 1, "team-lead", "a", "b")
			row := `[{"from":"a","text":"{\"type\":\"idle_notification\",\"idleReason\":\"failed\"}","timestamp":"2026-11-21T22:30:45.751Z","read":false}]`
			w.must(os.WriteFile(w.Inbox("crew", "team-lead").Path(), []byte(row), 0o600))
			_, err = w.b.Send(w.Context(), "crew", "b", "", api.NewMessage{Text: "hello"})
			w.must(err)
			failed := func() string {
				w.Helper()
				list, err := w.b.Attention(w.Context(), "crew")
				w.must(err)
				i := slices.IndexFunc(list, func(a api.Attention) bool { return a.Kind == api.WaitsFailed })
				if i < 0 {
					return ""
				}
				if !list[i].Dismissable || list[i].Member != "a" {
					w.Errorf("what waits is %+v", list[i])
				}
				return list[i].ID
			}
			id := ""
			w.soon(func() bool { id = failed(); return id != "" })
			for range 2 {
				a, err := w.b.Dismiss(w.Context(), id)
				w.must(err)
				if a.ID != id {
					w.Errorf("dismissed is %+v", a)
				}
			}
			if again := failed(); again != "" {
				w.Errorf("%s still waits", again)
			}
		},
		"relays": func(w *world) {
			for _, team := range []string{"", newer, "nobody"} {
				if list, err := w.b.Relays(w.Context(), team); err != nil || list == nil || len(list) != 0 {
					w.Errorf("the relays of %q are %+v, %v", team, list, err)
				}
			}
		},
		"marking as read": func(w *world) {
			_, err := w.b.Send(w.Context(), newer, "user", "to-user", api.NewMessage{Text: "hello", Force: true})
			w.must(err)
			for i := range 2 {
				m, err := w.b.MarkRead(w.Context(), newer, api.MarkRead{IDs: []string{"to-user"}})
				w.must(err)
				if m != (api.Marked{Inbox: "user", Marked: 1 - i}) || !w.last("user").Read {
					w.Errorf("marked %+v", m)
				}
			}
			_, err = w.b.MarkRead(w.Context(), newer, api.MarkRead{Inbox: "worker", IDs: []string{"to-user"}})
			w.fails(err, api.CodeRefused)
			_, err = w.b.MarkRead(w.Context(), newer, api.MarkRead{})
			w.fails(err, api.CodeInvalid)
		},
	}
	maps.Copy(cases, events)
	maps.Copy(cases, lasting)
	maps.Copy(cases, outcomes)
	maps.Copy(cases, links)
	maps.Copy(cases, tasks)
	for name, do := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := teamstest.Captured(t, teamstest.OlderVersion, teamstest.NewerVersion)
			do(&world{f, t, open(t, f)})
		})
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// soon waits until a condition holds: a service reads changed files a little later.
func (w *world) soon(holds func() bool) {
	w.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatal("it does not hold after three minutes")
		}
	}
}

// fails checks that an error has this code, and a text.
func (w *world) fails(err error, code api.Code) {
	w.Helper()
	if err == nil || !errors.Is(err, code) && view.Explain(err).Code != code || strings.TrimSpace(err.Error()) == "" {
		w.Errorf("the error is %v, want %s", err, code)
	}
}

// refused checks that a message is refused, and that nothing is written.
func (w *world) refused(code api.Code, team, member string, m api.NewMessage) {
	w.Helper()
	before := w.content("worker")
	_, err := w.b.Send(w.Context(), team, member, "", m)
	w.fails(err, code)
	if w.content("worker") != before {
		w.Errorf("something was written")
	}
}

func (w *world) content(member string) string {
	w.Helper()
	data, err := os.ReadFile(w.Inbox(newer, member).Path())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	return string(data)
}

// last returns the last row of an inbox.
func (w *world) last(member string) inbox.Row {
	w.Helper()
	rows, err := w.Inbox(newer, member).Read(w.Context())
	w.must(err)
	return rows[len(rows)-1]
}

// once checks that one row has this text.
func (w *world) once(member, text string) {
	w.Helper()
	rows, err := w.Inbox(newer, member).Read(w.Context())
	w.must(err)
	if n := len(slices.DeleteFunc(rows, func(r inbox.Row) bool { return r.Text != text })); n != 1 {
		w.Errorf("%d rows have the text %q", n, text)
	}
}
