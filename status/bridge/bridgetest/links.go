package bridgetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/relay/link/nats"
	"teambridge/status/api"
)

// build is a team on another machine that the cases link. No hub is needed: that machine has never sent anything.
const build = "ci@build"

// links are the cases of links with other machines.
var links = map[string]func(*world){
	"no links": func(w *world) {
		k, err := w.b.Links(w.Context())
		w.must(err)
		if k.Machine != "" || k.Card != "" || k.State != api.LinkOff || k.Machines == nil || len(k.Machines) != 0 {
			w.Errorf("the links are %+v", k)
		}
		_, err = w.b.SetLink(w.Context(), api.NewLink{Hub: "ssh://box"})
		w.fails(err, api.CodeUsage)
		_, err = w.b.AddMachine(w.Context(), api.NewMachine{Card: w.card("build")})
		w.fails(err, api.CodeUsage)
		_, err = w.b.RemoveMachine(w.Context(), "build")
		w.fails(err, api.CodeNotFound)
		_, err = w.b.ShareTeam(w.Context(), "build", api.NewShare{Team: newer})
		w.fails(err, api.CodeNotFound)
		w.refused(api.CodeNotFound, build, "worker", api.NewMessage{Text: "x"})
	},
	"a name and a hub": func(w *world) {
		for _, name := range []string{"Laptop", "my laptop", "ä", strings.Repeat("x", 33)} {
			_, err := w.b.SetLink(w.Context(), api.NewLink{Machine: name})
			w.fails(err, api.CodeInvalid)
		}
		k, err := w.b.SetLink(w.Context(), api.NewLink{Machine: "laptop"})
		w.must(err)
		if k.Machine != "laptop" || !strings.HasPrefix(k.Card, "laptop:U") || k.State != api.LinkOff || k.Reason == "" {
			w.Errorf("the links are %+v", k)
		}
		if info, err := os.Stat(filepath.Join(w.State, "link.key")); err != nil || info.Mode().Perm()&0o077 != 0 {
			w.Errorf("the key is %v, %v", info, err)
		}
		again, err := w.b.SetLink(w.Context(), api.NewLink{Machine: "notebook"})
		w.must(err)
		if want := "notebook" + strings.TrimPrefix(k.Card, "laptop"); again.Card != want {
			w.Errorf("under another name, the card is %s, want %s", again.Card, want)
		}
		for _, hub := range []string{"box", "http://box", "nats://box.example.com:4222", "tls://"} {
			_, err := w.b.SetLink(w.Context(), api.NewLink{Hub: hub})
			w.fails(err, api.CodeInvalid)
		}
		_, err = w.b.SetLink(w.Context(), api.NewLink{Hub: "tls://127.0.0.1:1", Trust: filepath.Join(w.State, "nosuch.pem")})
		w.fails(err, api.CodeInvalid)
		k, err = w.b.SetLink(w.Context(), api.NewLink{Hub: "nats://127.0.0.1:1"}) // no hub listens there
		w.must(err)
		if k.Machine != "notebook" || k.Hub != "nats://127.0.0.1:1" || k.State == api.LinkConnected || k.Reason == "" {
			w.Errorf("with a hub, the links are %+v", k)
		}
		now, err := w.b.Links(w.Context())
		w.must(err)
		if now.Card != again.Card || now.Hub != k.Hub {
			w.Errorf("the links are %+v", now)
		}
		now, err = w.b.SetLink(w.Context(), api.NewLink{NewKey: true})
		w.must(err)
		if now.Card == again.Card || now.Machine != "notebook" || now.Hub != k.Hub {
			w.Errorf("with new keys, the links are %+v", now)
		}
	},
	"a machine": func(w *world) {
		m := w.link()
		if m.Machine != "build" || m.State != api.MachineNew || m.Heard != nil || m.Teams == nil || len(m.Teams) != 0 || m.Offers == nil || len(m.Offers) != 0 || m.Queued != 0 || m.Oldest != nil {
			w.Errorf("the machine is %+v", m)
		}
		again, err := w.b.AddMachine(w.Context(), api.NewMachine{Card: m.Card, Teams: []string{newer}})
		w.must(err)
		if again.Card != m.Card || !slices.Equal(again.Teams, []string{newer}) {
			w.Errorf("again, it is %+v", again)
		}
		for _, card := range []string{"", "build", strings.TrimSuffix(m.Card, m.Card[len(m.Card)-4:]), "Build" + strings.TrimPrefix(m.Card, "build")} {
			_, err := w.b.AddMachine(w.Context(), api.NewMachine{Card: card})
			w.fails(err, api.CodeInvalid)
		}
		own, err := w.b.Links(w.Context())
		w.must(err)
		_, err = w.b.AddMachine(w.Context(), api.NewMachine{Card: own.Card})
		w.fails(err, api.CodeInvalid)
		_, err = w.b.AddMachine(w.Context(), api.NewMachine{Card: w.card("other"), Teams: []string{".."}})
		w.fails(err, api.CodeInvalid)
		other := w.card("build")
		_, err = w.b.AddMachine(w.Context(), api.NewMachine{Card: other})
		w.fails(err, api.CodeConflict)
		_, err = w.b.SetLink(w.Context(), api.NewLink{Machine: "notebook"}) // other machines know it by the old name
		w.fails(err, api.CodeConflict)
		replaced, err := w.b.AddMachine(w.Context(), api.NewMachine{Card: other, Replace: true})
		w.must(err)
		if replaced.Card != other || !slices.Equal(replaced.Teams, []string{newer}) {
			w.Errorf("with another card, it is %+v", replaced)
		}
		k, err := w.b.Links(w.Context())
		w.must(err)
		if len(k.Machines) != 1 || k.Machines[0].Card != other {
			w.Errorf("the links are %+v", k)
		}
	},
	"sharing a team": func(w *world) {
		w.link()
		for _, tc := range []struct {
			share api.NewShare
			want  []string
		}{
			{api.NewShare{Team: newer}, []string{newer}},
			{api.NewShare{Team: newer}, []string{newer}},
			{api.NewShare{Team: "ci"}, []string{"ci", newer}}, // it need not exist yet
			{api.NewShare{Team: "ci", Stop: true}, []string{newer}},
			{api.NewShare{Team: "ci", Stop: true}, []string{newer}},
		} {
			m, err := w.b.ShareTeam(w.Context(), "build", tc.share)
			w.must(err)
			if !slices.Equal(m.Teams, tc.want) {
				w.Errorf("after %+v, it may write to %q, want %q", tc.share, m.Teams, tc.want)
			}
		}
		_, err := w.b.ShareTeam(w.Context(), "build", api.NewShare{Team: ".."})
		w.fails(err, api.CodeInvalid)
		_, err = w.b.ShareTeam(w.Context(), "nosuch", api.NewShare{Team: newer})
		w.fails(err, api.CodeNotFound)
	},
	"a message to another machine": func(w *world) {
		w.link()
		to, err := w.b.Target(w.Context(), api.Scope{Default: newer}, "worker@"+build)
		if err != nil || to.Team != build || to.Way != api.WayMachine || !slices.Equal(to.Members, []string{"worker"}) {
			w.Errorf("it goes to %+v, %v", to, err)
		}
		dry, err := w.b.Send(w.Context(), build, "worker", "", api.NewMessage{Text: "x", DryRun: true})
		w.must(err)
		if dry.State != api.DryRun || dry.Recorded || dry.Delivery != "" {
			w.Errorf("a dry run is %+v", dry)
		}
		var s api.Sent
		for i := range 2 {
			s, err = w.b.Send(w.Context(), build, "worker", "job-1", api.NewMessage{Text: "hello", Summary: "a greeting"})
			w.must(err)
			if s.Team != build || s.Member != "worker" || s.ID != "job-1" || s.State != api.Queued || s.Deduplicated != (i == 1) || !s.Recorded || s.Delivery == "" {
				w.Errorf("it is %+v", s)
			}
			if s.Reachable || !strings.Contains(s.Reason, "build has not reported its state yet") {
				w.Errorf("it says %t, %q", s.Reachable, s.Reason)
			}
		}
		_, err = w.b.Send(w.Context(), build, "worker", "job-1", api.NewMessage{Text: "another"})
		w.fails(err, api.CodeIDTaken)

		now, err := w.b.Await(w.Context(), s, api.Stored, 50*time.Millisecond)
		w.fails(err, api.CodeTimeout)
		if now.State != api.Queued || now.Reason == "" {
			w.Errorf("it is %+v", now)
		}
		if err != nil && err.Error() != "timed out after 50ms: the message to worker@ci@build is queued; "+now.Reason {
			w.Errorf("the error is %v", err)
		}
		_, err = w.b.Await(w.Context(), s, api.Confirmed, time.Minute)
		w.fails(err, api.CodeUsage)

		found, err := w.b.Read(w.Context(), build, api.Reading{})
		w.must(err)
		if len(found.Messages) != 1 {
			w.Fatalf("what waits is %+v", found)
		}
		if m := found.Messages[0]; m.Team != build || m.Inbox != "worker" || m.ID != "job-1" || m.From != "user" || m.Text != "hello" || m.Summary != "a greeting" || m.Read {
			w.Errorf("what waits is %+v", m)
		}
		own, err := w.b.Read(w.Context(), build, api.Reading{Own: true})
		w.must(err)
		if len(own.Messages) != 0 {
			w.Errorf("to the person: %+v", own)
		}
		k, err := w.b.Links(w.Context())
		w.must(err)
		if m := k.Machines[0]; m.Queued != 1 || m.Stored != 0 || m.Oldest == nil {
			w.Errorf("the machine is %+v", m)
		}

		was, err := w.b.RemoveMachine(w.Context(), "build")
		w.must(err)
		if was.Queued != 1 || was.Machine != "build" {
			w.Errorf("the machine was %+v", was)
		}
		w.refused(api.CodeNotFound, build, "worker", api.NewMessage{Text: "x"})
		_, err = w.b.RemoveMachine(w.Context(), "build")
		w.fails(err, api.CodeNotFound)
	},
	"what does not go to another machine": func(w *world) {
		w.link()
		for what, tc := range map[string]struct {
			code api.Code
			m    api.NewMessage
		}{
			"nothing":                               {api.CodeInvalid, api.NewMessage{Text: " "}},
			"force":                                 {api.CodeInvalid, api.NewMessage{Text: "x", Force: true}},
			"a mode":                                {api.CodeInvalid, api.NewMessage{Text: "x", Mode: []byte(`{"model": "opus"}`)}},
			"isolated":                              {api.CodeInvalid, api.NewMessage{Text: "x", Isolated: true}},
			"options of panes":                      {api.CodeInvalid, api.NewMessage{Text: "x", PaneOptions: api.PaneOptions{Policy: api.PolicyUrgent}}},
			"a protocol":                            {api.CodeRefused, api.NewMessage{Text: `{"type":"shutdown_request"}`}},
			"a protocol, forced by an agent's name": {api.CodeRefused, api.NewMessage{Text: `{"type":"shutdown_request"}`, From: "team-lead", Protocol: true}},
		} {
			if _, err := w.b.Send(w.Context(), build, "worker", "", tc.m); err == nil {
				w.Errorf("%s goes", what)
			} else {
				w.fails(err, tc.code)
			}
		}
		_, err := w.b.Broadcast(w.Context(), build, "", api.NewBroadcast{Text: "x"}) // the recipients are unknown
		w.fails(err, api.CodeNotFound)
		k, err := w.b.Links(w.Context())
		w.must(err)
		if k.Machines[0].Queued != 0 {
			w.Errorf("%d messages wait", k.Machines[0].Queued)
		}
	},
	"a broadcast to another machine": func(w *world) {
		w.link()
		_, err := w.ledger().Links.HeardFrom(w.Context(), "build", "ledger-1", []byte(`{"v":1,"instance":"i","ledger":"ledger-1","teams":[{"team":"ci","members":[{"member":"boss","lead":true},{"member":"worker"},{"member":"tester"}]}]}`))
		w.must(err)
		for _, tc := range []struct {
			m    api.NewBroadcast
			want []string // none: not_found
		}{
			{api.NewBroadcast{}, []string{"tester", "worker"}},
			{api.NewBroadcast{Except: []string{"LEAD", "tester"}, IncludeLead: true}, []string{"worker"}},
			{api.NewBroadcast{Except: []string{"wroker"}}, nil},
			{api.NewBroadcast{Except: []string{"worker", "tester"}}, nil}, // no recipient is left
		} {
			tc.m.Text = "hello"
			all, err := w.b.Broadcast(w.Context(), build, "", tc.m)
			if tc.want == nil {
				w.fails(err, api.CodeNotFound)
			} else {
				w.must(err)
			}
			if got := members(all); !slices.Equal(got, tc.want) {
				w.Errorf("%+v goes to %q, want %q", tc.m, got, tc.want)
			}
		}
	},
	"a lead on another machine": func(w *world) { // people call it "lead", whatever its name is
		w.link()
		_, err := w.ledger().Links.HeardFrom(w.Context(), "build", "ledger-1", []byte(`{"v":1,"instance":"i","ledger":"ledger-1","teams":[{"team":"ci","members":[{"member":"boss","lead":true,"word":"idle"},{"member":"worker","word":"working"}]}]}`))
		w.must(err)
		to, err := w.b.Target(w.Context(), api.Scope{Default: newer}, "lead@"+build)
		if err != nil || !slices.Equal(to.Members, []string{"boss"}) {
			w.Errorf("the lead is %+v, %v", to, err)
		}
		h, err := w.b.Wait(w.Context(), build, api.Occasion{For: api.ForIdle, Member: "lead", Timeout: time.Minute})
		w.must(err)
		if len(h.Status) != 1 || h.Status[0].Member != "boss" {
			w.Errorf("it is idle: %+v", h.Status)
		}
		_, err = w.ledger().Links.HeardFrom(w.Context(), "build", "ledger-1", []byte(`{"v":1,"instance":"i","ledger":"ledger-1","teams":[{"team":"ci","members":[{"member":"boss","lead":true,"word":"working"},{"member":"worker","word":"idle"}]}]}`))
		w.must(err)
		h, err = w.b.Wait(w.Context(), build, api.Occasion{For: api.ForAllIdle, Timeout: time.Minute})
		w.must(err)
		if len(h.Status) != 1 || h.Status[0].Member != "worker" {
			w.Errorf("all but the lead are idle: %+v", h.Status)
		}
		_, err = w.b.Send(w.Context(), build, "lead", "", api.NewMessage{Text: "hello"})
		w.must(err)
		found, err := w.b.Read(w.Context(), build, api.Reading{Inboxes: []string{"lead"}})
		w.must(err)
		if len(found.Messages) != 1 || found.Messages[0].Inbox != "boss" {
			w.Errorf("what waits for it is %+v", found)
		}
	},
	"a name for a member on another machine": func(w *world) {
		w.link()
		for range 2 {
			m, err := w.b.Join(w.Context(), newer, api.NewJoin{Remote: "worker@" + build})
			w.must(err)
			if m != (api.Membership{Team: newer, Member: "worker-build"}) {
				w.Errorf("joined as %+v", m)
			}
		}
		m, err := w.b.Join(w.Context(), newer, api.NewJoin{Remote: "tester@" + build, As: "tester"})
		w.must(err)
		if m.Member != "tester" {
			w.Errorf("joined as %+v", m)
		}
		for remote, tc := range map[string]struct {
			as   string
			code api.Code
		}{
			"worker@ci":        {"", api.CodeUsage},
			"worker":           {"", api.CodeUsage},
			"worker@ci@nosuch": {"", api.CodeNotFound},
			"other@ci@build":   {"worker", api.CodeConflict}, // it is a member here
			"third@ci@build":   {"tester", api.CodeConflict}, // it stands for another member
		} {
			_, err := w.b.Join(w.Context(), newer, api.NewJoin{Remote: remote, As: tc.as})
			w.fails(err, tc.code)
		}
		stand := func() (names []string) {
			w.Helper()
			list, err := w.b.Members(w.Context(), newer)
			w.must(err)
			for _, m := range list {
				if m.Member == "worker-build" || m.Member == "tester" {
					names = append(names, m.Member)
				}
			}
			slices.Sort(names)
			return names
		}
		if got := stand(); !slices.Equal(got, []string{"tester", "worker-build"}) {
			w.Errorf("the members are %q", got)
		}
		_, err = w.b.RemoveMachine(w.Context(), "build")
		w.must(err)
		if got := stand(); len(got) != 0 {
			w.Errorf("without the link, the members are %q", got)
		}
	},
}

// link names this machine and makes a link with another one.
func (w *world) link() api.Machine {
	w.Helper()
	_, err := w.b.SetLink(w.Context(), api.NewLink{Machine: "laptop"})
	w.must(err)
	m, err := w.b.AddMachine(w.Context(), api.NewMachine{Card: w.card("build")})
	w.must(err)
	return m
}

// card returns the card of another machine.
func (w *world) card(name string) string {
	w.Helper()
	key, err := nats.NewKey()
	w.must(err)
	return fmt.Sprint(key.Card(name))
}
