package service

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/claim"
	natshub "teambridge/relay/link/hub"
	"teambridge/relay/link/nats"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/links"
	"teambridge/teams/lockedfile"
	"teambridge/teams/teamstest"
)

// linkedMachine is a machine in a test: a Claude directory and a running service.
type linkedMachine struct {
	*teamstest.Fixture
	*Service
	t    *testing.T
	name string
	end  func()
}

// linkedMachines returns two machines, laptop and build, that have a link over a hub. build has the
// team ci, which laptop may write to, and laptop the team dev, which build may not write to. First is done before build is started.
func linkedMachines(t *testing.T, first ...func(build *linkedMachine)) (laptop, build *linkedMachine) {
	t.Helper()
	laptop, build, _ = machinesOfHub(t, first...)
	return laptop, build
}

// machinesOfHub also returns the directory of the hub.
func machinesOfHub(t *testing.T, first ...func(build *linkedMachine)) (laptop, build *linkedMachine, dir string) {
	t.Helper()
	dir = t.TempDir()
	h, err := natshub.Open(t.Context(), natshub.Options{Dir: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	machine := func(name string) *linkedMachine {
		m := &linkedMachine{Fixture: teamstest.New(t), t: t, name: name}
		m.open()
		links, err := m.SetLink(t.Context(), api.NewLink{Machine: name})
		must(t, err)
		card, err := nats.ParseCard(links.Card)
		if err == nil {
			err = natshub.Add(t.Context(), dir, card, natshub.AddOptions{})
		}
		if err == nil {
			_, err = m.SetLink(t.Context(), api.NewLink{Hub: "nats://" + h.Addr().String()})
		}
		must(t, err)
		return m
	}
	laptop, build = machine("laptop"), machine("build")
	laptop.Make("dev", 1000, "boss", "alice")
	build.Make("ci", 2000, "chief", "worker")
	laptop.add(build)
	build.add(laptop, "ci")
	laptop.start()
	for _, do := range first {
		do(build)
	}
	build.start()
	laptop.until("build is there, and offers its team", func() bool {
		links, err := laptop.Links(t.Context())
		return err == nil && links.State == api.LinkConnected && slices.Equal(links.Machines[0].Offers, []string{"ci@build"})
	})
	return laptop, build, dir
}

func (m *linkedMachine) open() {
	m.t.Helper()
	s, err := Open(m.t.Context(), Options{
		Root: m.Root, State: m.State, Lock: teamstest.Patient, Tick: 20 * time.Millisecond, KeepWork: time.Hour, Log: slog.New(slog.DiscardHandler),
	})
	must(m.t, err)
	s.links.Every, s.links.Late = time.Second, 250*time.Millisecond
	m.Service = s
}

func (m *linkedMachine) start() {
	m.t.Helper()
	end := m.Service.start(m.t)
	s := m.Service
	m.end = func() {
		end()
		if err := s.Close(); err != nil {
			m.t.Error(err)
		}
	}
}

func (m *linkedMachine) restart() {
	m.end()
	m.open()
	m.start()
}

func (m *linkedMachine) add(other *linkedMachine, teams ...string) {
	m.t.Helper()
	links, err := other.Links(m.t.Context())
	if err == nil {
		_, err = m.AddMachine(m.t.Context(), api.NewMachine{Card: links.Card, Teams: teams})
	}
	must(m.t, err)
}

// patience limits the wait of a test for an event.
const patience = 8 * time.Minute

// until waits until a condition holds.
func (m *linkedMachine) until(what string, so func() bool) {
	m.t.Helper()
	limit := time.After(patience)
	for !so() {
		select {
		case <-limit:
			m.t.Fatalf("%s: not in time: %s", m.name, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// rows waits until an inbox has n rows, and returns them.
func (m *linkedMachine) rows(team, member string, n int) (rows []inbox.Row) {
	m.t.Helper()
	box := m.Inbox(team, member)
	m.until(fmt.Sprintf("%s@%s has %d rows", member, team, n), func() bool {
		var err error
		rows, err = box.Read(m.t.Context())
		return err == nil && len(rows) >= n
	})
	if len(rows) != n {
		m.t.Fatalf("%s@%s has %d rows, want %d: %v", member, team, len(rows), n, rows)
	}
	return rows
}

// say sends as a person.
func (m *linkedMachine) say(team, member, id, text string) (api.Sent, error) {
	return m.Service.Send(bridge.WithPerson(m.t.Context()), team, member, id, api.NewMessage{Text: text})
}

func TestMemberOnAnotherMachine(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	to, err := laptop.Target(t.Context(), api.Scope{}, "worker@ci@build")
	if err != nil || to.Team != "ci@build" || to.Member() != "worker" || to.Way != api.WayMachine {
		t.Fatalf("%+v, %v", to, err)
	}
	for _, name := range []string{"worker", "worker@ci"} { // unique, so found without the machine
		if to, err := laptop.Target(t.Context(), api.Scope{}, name); err != nil || to.Team != "ci@build" {
			t.Errorf("%s: %+v, %v", name, to, err)
		}
	}
	sent, err := laptop.say("ci@build", "worker", "one", "hello")
	if err != nil || sent.State != api.Queued || !sent.Reachable {
		t.Fatalf("%+v, %v", sent, err)
	}
	if sent, err = laptop.Await(t.Context(), sent, api.Verified, patience); err != nil || sent.State != api.Verified {
		t.Fatalf("%+v, %v", sent, err)
	}
	if row := build.rows("ci", "worker", 1)[0]; row.From != "user-laptop" || row.Text != "hello" || row.Read {
		t.Errorf("%+v", row)
	}
	again, err := laptop.say("ci@build", "worker", "one", "hello")
	if err != nil || !again.Deduplicated || again.State != api.Verified {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := laptop.say("ci@build", "worker", "one", "other"); !errors.Is(err, ledger.ErrConflict) {
		t.Error(err)
	}
	// Its agent takes it, and its sender learns that.
	if _, err := teamstest.Take(t.Context(), build.Inbox("ci", "worker"), teamstest.All); err != nil {
		t.Fatal(err)
	}
	if sent, err = laptop.Await(t.Context(), sent, api.Consumed, patience); err != nil {
		t.Errorf("%+v, %v", sent, err)
	}
	// It answers, as agents do: by a row in the inbox of a name that config.json has.
	answered := make(chan error, 1)
	go func() {
		a, err := laptop.Ask(bridge.WithPerson(t.Context()), "ci@build", "worker", "two", api.NewQuestion{NewMessage: api.NewMessage{Text: "what?"}, Timeout: "3m"})
		if err == nil && (a.Text != "42" || a.Via != api.ViaMessage || a.Reply.From != "worker") {
			err = fmt.Errorf("%+v", a)
		}
		answered <- err
	}()
	build.until("worker has the question", func() bool {
		rows, err := build.Inbox("ci", "worker").Read(t.Context())
		return err == nil && slices.ContainsFunc(rows, func(r inbox.Row) bool { return r.Text == "what?" })
	})
	build.Fixture.Send("ci", "worker", "user-laptop", "42")
	if err := <-answered; err != nil {
		t.Error(err)
	}
	found, err := laptop.Read(t.Context(), "ci@build", api.Reading{Own: true})
	if err != nil || len(found.Messages) != 1 || found.Messages[0].Read || found.Messages[0].Inbox != mail.User {
		t.Fatalf("%+v, %v", found, err)
	}
	if done, err := laptop.MarkRead(t.Context(), "ci@build", api.MarkRead{IDs: []string{found.Messages[0].ID}}); err != nil || done.Marked != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if states, err := laptop.Status(t.Context(), "ci@build", "worker"); err != nil || len(states) != 1 || states[0].Basis != api.BasisMachine {
		t.Errorf("%+v, %v", states, err)
	}
	// The item is shown there, without its text.
	row, err := json.Marshal([]any{map[string]any{"from": "worker", "timestamp": time.Now().UTC(), "read": true, "text": `{"type":"permission_request","request_id":"perm-1-a","agent_id":"worker",` +
		`"tool_name":"Bash","tool_use_id":"t1","description":"a secret","input":{},"permission_suggestions":[]}`}})
	must(t, errors.Join(err, os.WriteFile(build.Path("ci", "inboxes", "chief.json"), row, 0o600)))
	laptop.until("worker needs somebody", func() bool {
		states, err := laptop.Status(t.Context(), "ci@build", "worker")
		if err != nil || len(states) != 1 || states[0].Section != api.SectionNeedsYou {
			return false
		}
		if s := states[0]; s.SectionKind == "" || s.SectionSince == nil || strings.Contains(s.SectionWhy, "secret") || s.SectionWhy == "" {
			t.Errorf("%+v", s)
		}
		return true
	})
}

// Agents of two machines write to each other by stand-ins, which are no members for broadcasts.
func TestStandIns(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	m, err := laptop.Join(t.Context(), "dev", api.NewJoin{Remote: "worker@ci@build"})
	if err != nil || m.Member != "worker-build" {
		t.Fatalf("%+v, %v", m, err)
	}
	laptop.Fixture.Send("dev", "alice", "worker-build", "review this")
	if row := build.rows("ci", "worker", 1)[0]; row.From != "alice-laptop" || row.Text != "review this" {
		t.Errorf("%+v", row)
	}
	build.Fixture.Send("ci", "worker", "alice-laptop", "done")
	if row := laptop.rows("dev", "alice", 1)[0]; row.From != "worker-build" || row.Text != "done" {
		t.Errorf("%+v", row)
	}
	all, err := build.Broadcast(bridge.WithPerson(t.Context()), "ci", "", api.NewBroadcast{Text: "to all", IncludeLead: true})
	if err != nil || slices.ContainsFunc(all, func(s api.Sent) bool { return strings.Contains(s.Member, "-laptop") }) {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := laptop.Join(t.Context(), "dev", api.NewJoin{Remote: "worker@ci@build", As: "alice"}); err == nil {
		t.Error("a stand-in took the name of a member")
	}
	if _, err := laptop.RemoveMachine(t.Context(), "build"); err != nil {
		t.Fatal(err)
	}
	c, err := laptop.Team("dev").Config(t.Context())
	must(t, err)
	if _, there := c.Member("worker-build"); there {
		t.Error("the stand-in is still a member")
	}
}

// A stand-in that agents here write to is in use, although its member never answers. What they wrote while no service
// ran is sent, however long that was; only then is the entry removed.
func TestStandInIsUsedByWriting(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	if _, err := laptop.Join(t.Context(), "dev", api.NewJoin{Remote: "worker@ci@build"}); err != nil {
		t.Fatal(err)
	}
	standIns := func() []ledger.StandIn {
		all, err := laptop.ledger.Links.StandIns(t.Context(), laptop.Root.Path())
		must(t, err)
		return all
	}
	month := func(texts ...string) { // passes, without a service
		laptop.end()
		for _, text := range texts {
			laptop.Fixture.Send("dev", "alice", "worker-build", text)
		}
		db, err := sqlite.OpenConn(filepath.Join(laptop.State, "ledger.db"))
		must(t, err)
		must(t, errors.Join(sqlitex.ExecuteTransient(db, "UPDATE standins SET used=used-31*24*3600*1000000", nil), db.Close()))
		laptop.open()
		laptop.start()
	}
	month("are you there?")
	if row := build.rows("ci", "worker", 1)[0]; row.Text != "are you there?" {
		t.Errorf("%+v", row)
	}
	if all := standIns(); len(all) != 1 || time.Since(all[0].Used) > time.Hour {
		t.Errorf("%+v", all)
	}
	key := standIns()[0].InboxKey
	must(t, laptop.ledger.Holds.Hold(t.Context(), ledger.Hold{InboxKey: key, Sender: "alice", Reason: "a loop", Since: time.Now()}))
	month("held")
	laptop.until("the inboxes of stand-ins were read", func() bool { ready, _ := laptop.links.Failed(); return ready })
	if all := standIns(); len(all) != 1 {
		t.Fatalf("with a message of a held sender: %+v", all)
	}
	_, err := laptop.ledger.Holds.Release(t.Context(), key, "alice")
	must(t, err)
	build.rows("ci", "worker", 2)
	month()
	laptop.until("the stand-in is removed", func() bool { return len(standIns()) == 0 })
}

// Draining waits for what agents wrote to members on other machines, even before it is in the outbox.
func TestDrainWaitsForStandIns(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	if _, err := laptop.Join(t.Context(), "dev", api.NewJoin{Remote: "worker@ci@build"}); err != nil {
		t.Fatal(err)
	}
	laptop.end()
	path := laptop.Inbox("dev", "worker-build").Path()
	must(t, os.WriteFile(path, []byte("["), 0o600)) // it is just being written
	laptop.open()
	laptop.start()
	if err := laptop.Drain(t.Context(), t.Context(), time.Second); !errors.Is(err, api.CodeTimeout) {
		t.Errorf("with an inbox that cannot be read: %v", err)
	}
	must(t, os.WriteFile(path, []byte("[]"), 0o600))
	laptop.Fixture.Send("dev", "alice", "worker-build", "review this")
	must(t, laptop.Drain(t.Context(), t.Context(), patience))
	build.rows("ci", "worker", 1)
}

// A service that is killed between any two steps of taking a row loses nothing, and repeats nothing.
func TestClaimedOnce(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	if _, err := laptop.Join(t.Context(), "dev", api.NewJoin{Remote: "worker@ci@build"}); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 12 {
		laptop.end()
		text := fmt.Sprint("text ", i/2) // each twice
		want = append(want, text)
		laptop.Fixture.Send("dev", "alice", "worker-build", text)
		laptop.open()
		standIns, err := laptop.ledger.Links.StandIns(t.Context(), laptop.Root.Path())
		must(t, err)
		laptop.links.Fault = func(step string) error {
			if step == []string{"claimed", "marked", "never"}[i%3] {
				return errors.New("killed")
			}
			return nil
		}
		err = laptop.links.ClaimStandIn(t.Context(), &standIns[0], map[inbox.InboxKey]os.FileInfo{})
		if laptop.links.Fault = nil; (err != nil) != (i%3 < 2) {
			t.Fatal(err)
		}
		laptop.start()
	}
	rows := build.rows("ci", "worker", len(want))
	for i, row := range rows {
		if row.Text != want[i] {
			t.Errorf("row %d is %q, want %q", i, row.Text, want[i])
		}
	}
}

// A row that another program writes back to the inbox of a stand-in goes to the other machine once. Rows of
// Claude Code's protocol name no delivery, and a held sender does not delay others.
func TestStandInClaimsAsARelayDoes(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	if _, err := laptop.Join(t.Context(), "dev", api.NewJoin{Remote: "worker@ci@build"}); err != nil {
		t.Fatal(err)
	}
	path := laptop.Path("dev", "inboxes", "worker-build.json")
	marked := func() {
		t.Helper()
		laptop.until("all rows are marked", func() bool {
			rows, err := laptop.Inbox("dev", "worker-build").Read(t.Context())
			return err == nil && !slices.ContainsFunc(rows, func(r inbox.Row) bool { return !r.Read })
		})
	}
	const first = `[{"from":"alice","text":"once","timestamp":"2026-11-27T10:00:00.000Z","read":false,"messageId":"m1"}]`
	for range 2 { // the second time, a program writes back the old content
		must(t, os.WriteFile(path, []byte(first), 0o600))
		marked()
	}
	standIns, err := laptop.ledger.Links.StandIns(t.Context(), laptop.Root.Path())
	if err == nil {
		err = laptop.ledger.Holds.Hold(t.Context(), ledger.Hold{InboxKey: standIns[0].InboxKey, Sender: "mallory@dev", Reason: "held"})
	}
	if err == nil {
		err = os.WriteFile(path, []byte(`[
			{"from":"mallory","text":"held","timestamp":"2026-11-27T10:00:01.000Z","read":false,"messageId":"m2"},
			{"from":"alice","text":"{\"type\":\"shutdown_request\",\"requestId\":\"r\",\"from\":\"alice\"}","timestamp":"2026-11-27T10:00:02.000Z","read":false},
			{"from":"alice","text":"after it","timestamp":"2026-11-27T10:00:03.000Z","read":false,"messageId":"m3"}]`), 0o600)
	}
	must(t, err)
	got := build.rows("ci", "worker", 2)
	if got[0].Text != "once" || got[1].Text != "after it" {
		t.Errorf("%+v", got)
	}
	rows, err := laptop.Inbox("dev", "worker-build").Read(t.Context())
	if err != nil || rows[0].Read || !rows[1].Read || claim.Of(&rows[1]) != "" || claim.Of(&rows[2]) == "" {
		t.Errorf("%+v, %v", rows, err)
	}
	if _, err := laptop.ledger.Holds.Release(t.Context(), standIns[0].InboxKey, "mallory@dev"); err != nil {
		t.Fatal(err)
	}
	marked()
	if got := build.rows("ci", "worker", 3); got[2].Text != "held" {
		t.Errorf("%+v", got)
	}
}

// A session that was stopped in the background gets nothing that a member on another machine can get.
func TestMemberElsewhereBeforeStoppedSession(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	job := filepath.Join(laptop.Root.Path(), "jobs", "0a2fe69c")
	must(t, os.MkdirAll(job, 0o700))
	must(t, os.WriteFile(filepath.Join(job, "state.json"), []byte(`{"sessionId":"0a2fe69c-0000-4000-8000-000000000001","name":"worker","state":"stopped"}`), 0o600))
	laptop.until("ci is offered", func() bool {
		to, err := laptop.Target(t.Context(), api.Scope{}, "worker")
		return err == nil && to.Team == "ci@build"
	})
	if _, err := build.ShareTeam(t.Context(), "laptop", api.NewShare{Team: "ci", Stop: true}); err != nil {
		t.Fatal(err)
	}
	laptop.until("the session is found", func() bool {
		to, err := laptop.Target(t.Context(), api.Scope{}, "worker")
		return err == nil && to.Way == api.WaySession
	})
}

// Nothing can be reached until it is shared, and messages from there have nobody's rights.
func TestNotShared(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	refused := func(m *linkedMachine, team, member, text, why string) {
		t.Helper()
		sent, err := m.say(team, member, "", text)
		if err == nil {
			_, err = m.Await(t.Context(), sent, api.Verified, patience)
		}
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s@%s: %v; want %q", member, team, err, why)
		}
	}
	refused(build, "dev@laptop", "alice", "hello", "there is no such team")
	refused(build, "never@laptop", "alice", "hello", "there is no such team")
	refused(laptop, "ci@build", "nobody", "hello", "has no member")
	refused(laptop, "ci@build", "worker", `{"type":"shutdown_request","requestId":"1","from":"team-lead"}`, "only texts")
	refused(laptop, "ci@elsewhere", "worker", "hello", "there is no link")
	if _, err := build.ShareTeam(t.Context(), "laptop", api.NewShare{Team: "ci", Stop: true}); err != nil {
		t.Fatal(err)
	}
	laptop.until("ci is offered no more", func() bool {
		links, err := laptop.Links(t.Context())
		return err == nil && len(links.Machines[0].Offers) == 0
	})
	refused(laptop, "ci@build", "worker", "hello", "there is no such team")
	if rows, err := build.Inbox("ci", "worker").Read(t.Context()); err == nil && len(rows) > 0 {
		t.Errorf("%+v", rows)
	}
}

// forge puts a message into the outbox of a machine as a dishonest machine may: with any sender and recipient.
func (m *linkedMachine) forge(machine, from, member, team, text string) string {
	m.t.Helper()
	id := uuid.NewString()
	o := ledger.Outgoing{Machine: machine, There: member, At: team, Delivery: ledger.Delivery{
		UUID: id, ID: id, InboxKey: inbox.InboxKey{Root: m.Root.Path(), Team: "any@" + machine, CreatedAt: ledger.MachineTeamCreated, Inbox: member},
		From: from, Kind: "message", Raw: []byte(text), Person: true, Isolated: true, At: time.Now(),
	}}
	if _, _, err := m.ledger.Outbox.Add(m.t.Context(), o, sha256.Sum256([]byte(text))); err != nil {
		m.t.Fatal(err)
	}
	m.links.Poke()
	return id
}

// became waits for the final state of a message to another machine.
func (m *linkedMachine) became(id string, want ledger.Stage) (reason string) {
	m.t.Helper()
	m.until("a message is "+string(want), func() bool {
		o, _, err := m.ledger.Outbox.Outgoing(m.t.Context(), id)
		if err == nil && o.Stage != want && (o.Stage.Final() || o.Stage == ledger.StageVerified) {
			m.t.Fatalf("it is %s: %s, want %s", o.Stage, o.Reason, want)
		}
		reason = o.Reason
		return err == nil && o.Stage == want
	})
	return reason
}

// A machine that nothing is shared with, and that the person never wrote to, cannot write to the person. Its
// refused messages are counted.
func TestPersonIsReachedOnlyIfAsked(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	for _, c := range [][3]string{{"user@sessions@laptop", "user", "sessions"}, {"worker@ci", "user", "sessions"}, {"worker@ci", "user", "ci@build"}, {"x@y@z", "user", "ci@build"}} {
		if why := build.became(build.forge("laptop", c[0], c[1], c[2], "call this number"), ledger.StageRefused); !strings.Contains(why, "there is no such team") {
			t.Errorf("%v: %q", c, why)
		}
	}
	waits := func() string {
		list, err := laptop.Attention(t.Context(), "")
		must(t, err)
		var all []string
		for _, a := range list {
			all = append(all, a.From+" in "+a.Team)
		}
		return strings.Join(all, ", ")
	}
	if got := waits(); got != "" {
		t.Errorf("there wait %s", got)
	}
	if links, err := laptop.Links(t.Context()); err != nil || links.Machines[0].Refused != 4 || !strings.Contains(links.Machines[0].RefusedWhy, "there is no such team") {
		t.Errorf("%+v, %v", links, err)
	}
	if _, err := laptop.say("ci@build", "worker", "", "who are you?"); err != nil {
		t.Fatal(err)
	}
	build.rows("ci", "worker", 1)
	build.became(build.forge("laptop", "user@sessions@laptop", "user", "sessions", "its person"), ledger.StageVerified)
	build.became(build.forge("laptop", "worker@ci", "user", "ci@build", "worker"), ledger.StageVerified)
	laptop.until("both wait", func() bool {
		got := waits()
		return strings.Contains(got, "user in sessions@build") && strings.Contains(got, "worker in ci@build")
	})
}

// A message from another machine to the person stays unread until it is read, even after the team, the sharing
// and the link end.
func TestUnreadStays(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	if _, err := laptop.say("ci@build", "worker", "", "is it green?"); err != nil {
		t.Fatal(err)
	}
	build.rows("ci", "worker", 1)
	build.Fixture.Send("ci", "worker", "user-laptop", "no, it is red")
	unread := func() []api.Attention {
		list, err := laptop.Attention(t.Context(), "")
		must(t, err)
		return list
	}
	laptop.until("the answer waits", func() bool { return len(unread()) == 1 })
	before := unread()[0]
	stays := func(after string) {
		t.Helper()
		if list := unread(); len(list) != 1 || list[0].ID != before.ID || list[0].Team != "ci@build" {
			t.Errorf("after %s: %+v", after, list)
		}
		if list, err := laptop.Teams(t.Context()); err != nil || !slices.ContainsFunc(list, func(t api.Team) bool { return t.Team == "ci@build" }) { // whose messages inbox reads
			t.Errorf("the teams after %s are %+v, %v", after, list, err)
		}
		if one, err := laptop.Attention(t.Context(), "ci@build"); err != nil || len(one) != 1 {
			t.Errorf("of its team, after %s: %+v, %v", after, one, err)
		}
	}
	if _, err := build.ShareTeam(t.Context(), "laptop", api.NewShare{Team: "ci", Stop: true}); err != nil {
		t.Fatal(err)
	}
	laptop.until("ci is offered no more", func() bool {
		links, err := laptop.Links(t.Context())
		return err == nil && len(links.Machines[0].Offers) == 0
	})
	stays("the sharing")
	if _, err := laptop.RemoveMachine(t.Context(), "build"); err != nil {
		t.Fatal(err)
	}
	stays("the link")
	laptop.restart()
	stays("a restart")
	found, err := laptop.Read(t.Context(), "ci@build", api.Reading{Inboxes: []string{mail.User}})
	if err != nil || len(found.Messages) != 1 || found.Messages[0].Text != "no, it is red" {
		t.Fatalf("%+v, %v", found, err)
	}
	if to, err := laptop.Target(t.Context(), api.Scope{Team: "ci@build"}, mail.User); err != nil || to.Team != "ci@build" {
		t.Errorf("%+v, %v", to, err)
	}
	if done, err := laptop.MarkRead(t.Context(), "ci@build", api.MarkRead{IDs: []string{found.Messages[0].ID}}); err != nil || done.Marked != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if list := unread(); len(list) != 0 {
		t.Errorf("read, and %+v", list)
	}
	if _, err := laptop.say("ci@build", "worker", "", "again"); err == nil || !strings.Contains(err.Error(), "there is no link") {
		t.Errorf("sent: %v", err)
	}
}

// An agent that is not known, or does not name its team, is no person on another machine.
func TestAgentIsNoPersonElsewhere(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	for i, from := range []string{api.Unverified, "alice"} {
		sent, err := laptop.Service.Send(bridge.WithAgent(t.Context()), "ci@build", "worker", "", api.NewMessage{Text: "hello", From: from})
		must(t, err)
		if row := build.rows("ci", "worker", i+1)[i]; row.From != from+"-laptop" {
			t.Errorf("it is from %s", row.From)
		}
		o, _, err := laptop.ledger.Outbox.Outgoing(t.Context(), sent.Delivery)
		if err != nil || o.From != from+"@sessions" { // and not from+"@ci@build", which is a person
			t.Errorf("%s is %s, %v", from, o.From, err)
		}
	}
}

// Names that a machine invents cannot fill a team, and a member with an entry can still write.
func TestInventedSenders(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	var last string
	for i := range links.MaxStandIns {
		last = laptop.forge("build", fmt.Sprintf("agent%d@x", i), "worker", "ci", "text")
	}
	laptop.became(last, ledger.StageVerified)
	for range 3 {
		last = laptop.forge("build", "another"+uuid.NewString()+"@x", "worker", "ci", "text")
		if why := laptop.became(last, ledger.StageRefused); !strings.Contains(why, "50 members of laptop have entries in ci already") {
			t.Errorf("%q", why)
		}
	}
	laptop.became(laptop.forge("build", "agent7@x", "worker", "ci", "again"), ledger.StageVerified)
	c, err := build.Team("ci").Config(t.Context())
	if err != nil || len(c.Members) != 2+links.MaxStandIns {
		t.Errorf("%d members, %v", len(c.Members), err)
	}
}

// No sender on another machine gets the address of an agent on this one, such as boss@ops-laptop.
func TestSenderIsNoAddressHere(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	for from, want := range map[string]string{"boss@": "is not NAME@TEAM", "@x": "is not NAME@TEAM", "boss@ops@x": "cannot be the name of a member"} {
		if why := laptop.became(laptop.forge("build", from, "worker", "ci", "text"), ledger.StageRefused); !strings.Contains(why, want) {
			t.Errorf("%s: %q", from, why)
		}
	}
	if rows, err := build.Inbox("ci", "worker").Read(t.Context()); err == nil && len(rows) > 0 {
		t.Errorf("%+v", rows)
	}
}

// An entry in a team gives its member no access to a later team of that name.
func TestEntryIsInOneTeam(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	if _, err := laptop.Join(t.Context(), "dev", api.NewJoin{Remote: "worker@ci@build"}); err != nil {
		t.Fatal(err)
	}
	build.became(build.forge("laptop", "worker@ci", "alice", "dev", "to the first team"), ledger.StageVerified)
	laptop.end()
	laptop.open()
	laptop.links.Fault = func(step string) error {
		if step == "checked" { // while a message comes
			must(t, os.RemoveAll(laptop.Path("dev")))
			laptop.Make("dev", 9000, "boss", "alice")
		}
		return nil
	}
	laptop.start()
	if why := build.became(build.forge("laptop", "worker@ci", "alice", "dev", "to another team"), ledger.StageRefused); !strings.Contains(why, "there is no such team") {
		t.Errorf("the reason is %q", why)
	}
}

// The name of a shared team that has ended means no other team, although a person could abbreviate that so.
func TestSharedTeamHasEnded(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	build.Make("ci-private", 3000, "chief", "worker")
	must(t, os.RemoveAll(build.Path("ci")))
	if why := laptop.became(laptop.forge("build", "alice@dev", "worker", "ci", "text"), ledger.StageRefused); !strings.Contains(why, "ci") {
		t.Errorf("the reason is %q", why)
	}
	if rows, err := build.Inbox("ci-private", "worker").Read(t.Context()); err == nil && len(rows) > 0 {
		t.Errorf("a team that is not shared has %+v", rows)
	}
	laptop.until("no team is offered", func() bool {
		links, err := laptop.Links(t.Context())
		return err == nil && len(links.Machines[0].Offers) == 0
	})
}

// A team that is shared no longer cannot be reached, even by earlier senders.
func TestSharedNoLonger(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	write := func(text string) error {
		sent, err := laptop.say("ci@build", "worker", "", text)
		if err == nil {
			_, err = laptop.Await(t.Context(), sent, api.Verified, patience)
		}
		return err
	}
	must(t, write("before"))
	if _, err := build.ShareTeam(t.Context(), "laptop", api.NewShare{Team: "ci", Stop: true}); err != nil {
		t.Fatal(err)
	}
	if err := write("after"); err == nil || !strings.Contains(err.Error(), "there is no such team") {
		t.Errorf("the answer is %v", err)
	}
	if rows := build.rows("ci", "worker", 1); len(rows) != 1 {
		t.Errorf("%+v", rows)
	}
	members, err := build.Members(t.Context(), "ci")
	if err != nil || slices.ContainsFunc(members, func(m api.Member) bool { return m.Member == "user-laptop" }) {
		t.Errorf("the members are %+v, %v", members, err)
	}
}

// A message while the other machine is away waits, says so, and arrives in order, once, after restarts of both.
func TestAway(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	build.end()
	var last api.Sent
	for i := range 30 {
		var err error
		if last, err = laptop.say("ci@build", "worker", fmt.Sprint("id ", i), fmt.Sprint("text ", i)); err != nil {
			t.Fatal(err)
		}
		if i%10 == 5 {
			laptop.restart()
		}
	}
	if s, err := laptop.Await(t.Context(), last, api.Stored, patience); err != nil {
		t.Fatalf("%+v, %v", s, err)
	}
	if s, err := laptop.Await(t.Context(), last, api.Received, 20*time.Millisecond); !errors.Is(err, api.CodeTimeout) || s.State != api.Stored {
		t.Errorf("%+v, %v", s, err)
	}
	build.open()
	build.start()
	if _, err := laptop.Await(t.Context(), last, api.Verified, patience); err != nil {
		t.Error(err)
	}
	for i, row := range build.rows("ci", "worker", 30) {
		if row.Text != fmt.Sprint("text ", i) {
			t.Errorf("row %d is %q", i, row.Text)
		}
	}
}

// A machine gets new keys while messages wait for it, and loses none and gets none twice.
func TestNewKey(t *testing.T) {
	t.Parallel()
	laptop, build, dir := machinesOfHub(t)
	build.end()
	var last api.Sent
	for i := range 10 {
		var err error
		if last, err = laptop.say("ci@build", "worker", "", fmt.Sprint("text ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := laptop.Await(t.Context(), last, api.Stored, patience); err != nil {
		t.Fatal(err)
	}
	build.open()
	before, err := build.Links(t.Context())
	must(t, err)
	inTheWay := filepath.Join(build.State, nats.KeyFile+".new", "x")
	must(t, os.MkdirAll(inTheWay, 0o700))
	if _, err := build.SetLink(t.Context(), api.NewLink{NewKey: true}); err == nil {
		t.Error("a key was written where it cannot be")
	}
	if links, err := build.Links(t.Context()); err != nil || links.Card != before.Card {
		t.Errorf("a key that could not be written replaced the old one: %+v, %v", links, err)
	}
	must(t, os.RemoveAll(filepath.Dir(inTheWay)))
	links, err := build.SetLink(t.Context(), api.NewLink{NewKey: true})
	if err != nil || links.Card == before.Card {
		t.Fatalf("%+v, %v", links, err)
	}
	card, err := nats.ParseCard(links.Card)
	if err == nil {
		err = natshub.Add(t.Context(), dir, card, natshub.AddOptions{Replace: true})
	}
	must(t, err)
	if _, err := laptop.AddMachine(t.Context(), api.NewMachine{Card: links.Card}); !errors.Is(err, api.CodeConflict) {
		t.Errorf("another card was taken without being asked: %v", err)
	}
	if _, err := laptop.AddMachine(t.Context(), api.NewMachine{Card: links.Card, Replace: true}); err != nil {
		t.Fatal(err)
	}
	build.start()
	if _, err := laptop.Await(t.Context(), last, api.Verified, patience); err != nil {
		t.Error(err)
	}
	for i, row := range build.rows("ci", "worker", 10) {
		if row.Text != fmt.Sprint("text ", i) {
			t.Errorf("row %d is %q", i, row.Text)
		}
	}
}

// Only the member that a stand-in stands for can write to its team, if that is not shared.
func TestStandInIsOfOneMember(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	if _, err := laptop.Join(t.Context(), "dev", api.NewJoin{Remote: "worker@ci@build"}); err != nil {
		t.Fatal(err)
	}
	if _, err := build.Join(t.Context(), "ci", api.NewJoin{Remote: "alice@dev@laptop"}); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"chief", "worker"} {
		build.Fixture.Send("ci", from, "alice-laptop", "from "+from)
		var d ledger.Outgoing
		build.until("what "+from+" wrote has an end", func() bool {
			list, err := build.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{Root: build.Root.Path(), Team: "ci"})
			if err != nil || len(list) == 0 || list[0].From != from+"@ci" {
				return false
			}
			d, _, err = build.ledger.Outbox.Outgoing(t.Context(), list[0].UUID)
			return err == nil && d.Stage != ledger.StageQueued && d.Stage != ledger.StageStored && d.Stage != ledger.StageReceived
		})
		if refused := d.Stage == ledger.StageRefused; refused != (from == "chief") {
			t.Errorf("what %s wrote is %s: %s", from, d.Stage, d.Reason)
		}
	}
	if row := laptop.rows("dev", "alice", 1)[0]; row.From != "worker-build" || row.Text != "from worker" {
		t.Errorf("%+v", row)
	}
	if _, err := build.say("dev@laptop", "boss", "", "from a person"); err != nil {
		t.Fatal(err)
	}
	build.until("what the person wrote is refused", func() bool {
		list, err := build.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{Root: build.Root.Path(), Team: "dev@laptop", States: []ledger.DeliveryState{ledger.Failed}})
		return err == nil && len(list) == 1 && strings.Contains(list[0].Reason, "there is no such team")
	})
}

// What came over a link goes on over no other one, however its recipient is spelled.
func TestGoesOverOneLink(t *testing.T) {
	t.Parallel()
	laptop, build := linkedMachines(t)
	key, err := nats.NewKey()
	must(t, err)
	_, err = build.AddMachine(t.Context(), api.NewMachine{Card: fmt.Sprint(key.Card("third"))})
	must(t, err)
	if m, err := build.Join(t.Context(), "ci", api.NewJoin{Remote: "carol@ops@third"}); err != nil || m.Member != "carol-third" {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, name := range []string{"carol-third", "Carol-Third", "carol-third@ci"} {
		if why := laptop.became(laptop.forge("build", "alice@dev", name, "ci", "for "+name), ledger.StageRefused); !strings.Contains(why, "over one link only") {
			t.Errorf("%s: %q", name, why)
		}
	}
	if rows, err := build.Inbox("ci", "carol-third").Read(t.Context()); err == nil && len(rows) > 0 {
		t.Errorf("%+v", rows)
	}
}

// Once the end of sharing is confirmed, nothing creates a stand-in or is delivered any more, not even a message
// that was just being delivered.
func TestSharingEndsWhileAMessageComes(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"checked", "admitted"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			met := make(chan error, 1)
			laptop, build := linkedMachines(t, func(build *linkedMachine) {
				var once sync.Once
				build.links.Fault = func(now string) error {
					if now == step {
						once.Do(func() {
							build.Service.AccessWithin = time.Nanosecond
							_, err := build.ShareTeam(t.Context(), "laptop", api.NewShare{Team: "ci", Stop: true})
							met <- err
						})
					}
					return nil
				}
			})
			sent, err := laptop.say("ci@build", "worker", "", "hello")
			must(t, err)
			err = <-met
			_, arrived := laptop.Await(t.Context(), sent, api.Verified, patience)
			if step == "checked" {
				if err != nil || arrived == nil || !strings.Contains(arrived.Error(), "there is no such team") {
					t.Errorf("%s: the end: %v; the message: %v", step, err, arrived)
				}
			} else {
				if !errors.Is(err, lockedfile.ErrLocked) || arrived != nil {
					t.Errorf("%s: the end: %v; the message: %v", step, err, arrived)
				}
				if _, err := build.ShareTeam(t.Context(), "laptop", api.NewShare{Team: "ci", Stop: true}); err != nil {
					t.Error(err)
				}
			}
			left, err := build.ledger.Links.StandIns(t.Context(), build.Root.Path())
			members, merr := build.Members(t.Context(), "ci")
			if err != nil || merr != nil || len(left) > 0 || slices.ContainsFunc(members, func(m api.Member) bool { return m.Member == "user-laptop" }) {
				t.Errorf("%s: stand-ins %v, members %+v, %v, %v", step, left, members, err, merr)
			}
			if rows, err := build.Inbox("ci", "worker").Read(t.Context()); step == "checked" && err == nil && len(rows) > 0 {
				t.Errorf("%s: %+v", step, rows)
			}
		})
	}
}

// An agent's last text of its turn is the answer to a question of another machine, once, even if the service
// ends before it has seen the text, or before it has recorded that the answer was sent.
func TestAnswerSurvivesRestarts(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{false, true} { // and taken by the lead
		laptop, build := linkedMachines(t)
		answered := make(chan error, 1)
		go func() {
			a, err := laptop.Ask(bridge.WithPerson(t.Context()), "ci@build", "worker", "one", api.NewQuestion{NewMessage: api.NewMessage{Text: "what?"}, Timeout: "3m"})
			if err == nil && (a.Text != "42" || a.Reply.From != "worker") {
				err = fmt.Errorf("%+v", a)
			}
			answered <- err
		}()
		build.rows("ci", "worker", 1)
		if _, err := teamstest.Take(t.Context(), build.Inbox("ci", "worker"), teamstest.All); err != nil {
			t.Fatal(err)
		}
		build.until("it is known that worker took the question", func() bool {
			in, err := build.ledger.Arrivals.Asking(t.Context(), time.Time{})
			return err == nil && len(in) == 1 && in[0].Stage == ledger.StageConsumed
		})
		build.end()
		build.open()
		at := time.Now().UTC().Format(inbox.TimestampLayout)
		report := fmt.Sprintf(`{"type":"idle_notification","from":"worker","timestamp":%q,"idleReason":"available","result":"42"}`, at)
		row, err := json.Marshal([]any{map[string]any{"from": "worker", "text": report, "timestamp": at, "read": false}})
		must(t, err)
		lead := build.Inbox("ci", "chief")
		must(t, os.WriteFile(lead.Path(), row, 0o600))
		if recorded {
			c, err := build.Team("ci").Config(t.Context())
			must(t, err)
			seen := journal.Snapshot{InboxKey: inbox.Key(build.Root.Path(), c.Instance(), "chief"), At: time.Now()}
			if seen.Rows, err = teamstest.Take(t.Context(), lead, teamstest.All); err == nil {
				_, err = build.journal.Messages.Observe(t.Context(), seen)
			}
			if err != nil || len(seen.Rows) != 1 {
				t.Fatal(seen.Rows, err)
			}
		}
		killed := make(chan struct{}, 100)
		build.links.Fault = func(step string) error {
			if step == "answered" {
				killed <- struct{}{}
				return errors.New("killed")
			}
			return nil
		}
		build.start()
		must(t, <-answered)
		<-killed
		build.restart()
		build.until("no question waits", func() bool {
			in, err := build.ledger.Arrivals.Asking(t.Context(), time.Time{})
			return err == nil && len(in) == 0
		})
		last, err := laptop.say("ci@build", "worker", "", "and now?")
		if err == nil {
			_, err = laptop.Await(t.Context(), last, api.Verified, patience) // build's earlier messages have arrived
		}
		found, rerr := laptop.Read(t.Context(), "ci@build", api.Reading{Own: true})
		if err != nil || rerr != nil || len(found.Messages) != 1 || found.Messages[0].Text != "42" {
			t.Errorf("recorded %v: the answers are %+v, %v, %v", recorded, found.Messages, err, rerr)
		}
	}
}
