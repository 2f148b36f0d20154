package doctor_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/link"
	"teambridge/relay/link/nats"
	"teambridge/status/api"
	"teambridge/status/doctor"
	"teambridge/teams/lockedfile"
	"teambridge/teams/teamstest"
)

// Without a service, problems of links are found in the state directory alone.
func TestLinks(t *testing.T) {
	t.Parallel()
	type world struct {
		*testing.T
		*teamstest.Fixture
		*ledger.Ledger
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	named := func(w *world, hub string) {
		must(w.T, w.Ledger.Links.SetLink(w.Context(), ledger.Link{Name: "laptop", Hub: hub}))
		key, err := nats.NewKey()
		must(w.T, err)
		must(w.T, nats.WriteKey(filepath.Join(w.State, nats.KeyFile), key))
	}
	linked := func(w *world, hub string) {
		named(w, hub)
		must(w.T, w.Ledger.Links.AddMachine(w.Context(), "build", "card", false))
	}
	send := func(w *world, uuid string) {
		_, _, err := w.Ledger.Outbox.Add(w.Context(), ledger.Outgoing{Machine: "build", There: "worker", At: "ci", Delivery: ledger.Delivery{
			UUID: uuid, InboxKey: inbox.InboxKey{Root: w.Root.Path(), Team: "ci@build", CreatedAt: ledger.MachineTeamCreated, Inbox: "worker"},
			ID: uuid, From: "user", Kind: "message", Raw: []byte("x"), Person: true, Isolated: true, At: time.Now(),
		}}, [32]byte{1})
		must(w.T, err)
	}
	const noLink = "nothing carries messages to and from other machines"
	for name, test := range map[string]struct {
		prepare func(*world)
		want    []string // LEVEL CODE MESSAGE…
	}{
		"none":        {func(*world) {}, nil},
		"only a name": {func(w *world) { named(w, "") }, nil},
		"no hub":      {func(w *world) { linked(w, "") }, []string{"problem no_hub there are links"}},
		"no service":  {func(w *world) { linked(w, "ssh://box") }, []string{"note no_link " + noLink}},
		"what waits":  {func(w *world) { linked(w, "ssh://box"); send(w, "m1"); send(w, "m2") }, []string{"problem no_link " + noLink + "; 2 messages waiting here", "note machine_waits build has not reported its state yet, and has not confirmed 2 messages, the oldest since "}},
		"link run": {func(w *world) {
			linked(w, "ssh://box")
			release, err := lockedfile.Hold(filepath.Join(w.State, "locks"), link.Lock)
			must(w.T, err)
			w.Cleanup(func() { release() })
		}, []string{"ok hub another process carries"}},
		"an open key": {func(w *world) {
			linked(w, "ssh://box")
			must(w.T, os.Chmod(filepath.Join(w.State, nats.KeyFile), 0o644))
		}, []string{"problem link_key the key of this machine", "note no_link " + noLink}},
		"no key": {func(w *world) {
			linked(w, "ssh://box")
			must(w.T, os.Remove(filepath.Join(w.State, nats.KeyFile)))
		}, []string{"problem link_key read the key of this machine", "note no_link " + noLink}},
		"unknown": {func(w *world) {
			linked(w, "ssh://box")
			_, err := w.Ledger.Links.HeardFrom(w.Context(), "build", "one", []byte("{}"))
			must(w.T, err)
			send(w, "m1")
			must(w.T, w.Ledger.Outbox.Sending(w.Context(), "m1"))
			must(w.T, w.Ledger.Outbox.Stored(w.Context(), "m1"))
			lost, err := w.Ledger.Links.HeardFrom(w.Context(), "build", "another", []byte("{}"))
			if err != nil || lost != 1 {
				w.Fatalf("%d are lost, %v", lost, err)
			}
		}, []string{"note no_link " + noLink, "note machine_unknown of 1 message to other machines, it is unknown whether they arrived, the last to worker@ci@build: the ledger of build"}},
		"a later version": {func(w *world) {
			linked(w, "ssh://box")
			_, err := w.Ledger.Links.HeardFrom(w.Context(), "build", "one", []byte(`{"v":2,"teams":{}}`))
			must(w.T, err)
		}, []string{"note no_link " + noLink, "problem machine_newer build has a later teambridge, with version 2 of links; this one knows 1"}},
		"an earlier version": {func(w *world) {
			linked(w, "ssh://box")
			send(w, "m1")
			_, err := w.Ledger.Links.HeardFrom(w.Context(), "build", "one", []byte(`{"v":0}`))
			must(w.T, err)
		}, []string{"problem no_link " + noLink + "; 1 message waiting here", "note machine_waits build has an earlier teambridge, and takes messages once it is upgraded, and has not confirmed 1 message"}},
		"what a machine says is refused": {func(w *world) {
			linked(w, "ssh://box")
			serveLinks(w.T, w.State, w.Root.Path(), api.Links{State: api.LinkConnected, Machines: []api.Machine{
				{Machine: "build", Refused: 2, RefusedWhy: "it offers a team of another machine"}, {Machine: "laptop"},
			}})
		}, []string{"note machine_refused from build, 2 things were refused since the service was started, the last because: it offers a team of another machine", "ok hub this machine, laptop, is connected"}},
		"refused": {func(w *world) {
			linked(w, "ssh://box")
			send(w, "m1")
			must(w.T, w.Ledger.Outbox.Confirm(w.Context(), "build", ledger.Receipt{ID: "m1", Stage: ledger.StageRefused, Reason: "no"}))
		}, []string{"note no_link " + noLink, "note dead_letters 1 message could not be delivered, the last because: refused: no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := teamstest.Captured(t)
			l, err := ledger.Open(t.Context(), filepath.Join(f.State, "ledger.db"))
			must(t, err)
			defer l.Close()
			test.prepare(&world{t, f, l})
			r, err := doctor.Checkup{
				Root: f.Root, State: f.State, Locker: f.Locker, LookupEnv: os.LookupEnv,
				Ledger: func(context.Context) (*ledger.Ledger, error) { return l, nil },
			}.Run(t.Context(), "", false)
			must(t, err)
			var got []string
			codes := []string{"no_hub", "no_link", "hub", "link_key", "machine_waits", "machine_newer", "machine_refused", "machine_unknown", "dead_letters"}
			for _, f := range r.Findings {
				if slices.Contains(codes, f.Code) {
					got = append(got, f.Level+" "+f.Code+" "+f.Message)
					if f.Advice == "" && f.Level != api.LevelOK {
						t.Errorf("no advice: %+v", f)
					}
				}
			}
			if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// serveLinks runs a service that answers with these links.
func serveLinks(t *testing.T, state, root string, links api.Links) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tb") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(links) // or the test fails
	})}
	go func() { _ = s.Serve(l) }() // until it is closed
	release, err := lockedfile.Hold(filepath.Join(state, "locks"), api.LockKey(root))
	t.Cleanup(func() {
		s.Close()
		os.RemoveAll(dir)
		if err == nil {
			release()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	card, err := json.Marshal(api.Card{PID: os.Getpid(), Listen: []string{"unix:" + l.Addr().String()}, API: api.Level})
	if err == nil {
		err = os.WriteFile(api.CardPath(state, root), card, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
