package linktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/link/hub"
	"teambridge/relay/link/nats"
)

// dishonest is the name of the machine that sends frames that our program never sends.
const dishonest = "bad"

// A form is a wrong frame, or a wrong presence.
type form struct {
	name, text string
	presence   bool
	told       bool // its sender learns that it was refused
}

// forms returns all forms, with an id in them.
func forms(id string) (list []form) {
	long := strings.Repeat("x", 1025)
	fields := []string{"id", "team", "member", "from", "text", "summary", "ask", "sent"}
	good := map[string]string{"id": fmt.Sprintf("%q", id), "team": `"team"`, "member": `"member-0"`, "from": `"sender-0@team"`, "text": `"00000000 bad"`, "summary": `""`, "ask": "false", "sent": `"` + time.Now().UTC().Format(time.RFC3339) + `"`}
	message := func(field, value string) string {
		var text []string
		for _, f := range fields {
			v := good[f]
			if f == field {
				v = value
			}
			text = append(text, fmt.Sprintf("%q:%s", f, v))
		}
		return "{" + strings.Join(text, ",") + "}"
	}
	frame := func(messages ...string) string {
		return `{"v":1,"ledger":"bad0","messages":[` + strings.Join(messages, ",") + "]}"
	}
	add := func(name, text string, told bool) { list = append(list, form{name, text, false, told}) }
	for _, field := range []string{"team", "member", "from", "text", "id"} {
		for _, value := range []string{`""`, `" "`, "null", "5", "{}", `"\ud800"`} {
			add(field+" "+value, frame(message(field, value)), field != "id")
		}
		if field != "text" {
			add("long "+field, frame(message(field, `"`+long+`"`)), field != "id")
			add("lines in "+field, frame(message(field, `"a\nb"`)), field != "id")
		}
	}
	add("long summary", frame(message("summary", `"`+long+`"`)), true)
	add("summary 5", frame(message("summary", "5")), true)
	add("ask", frame(message("ask", `"yes"`)), true)
	add("sent", frame(message("sent", `"yesterday"`)), true)
	add("sent long ago", frame(message("sent", `"0001-01-01T00:00:00Z"`)), true)
	add("not UTF-8", frame(message("text", "\"\xff\"")), true)
	add("twice", frame(strings.Replace(message("", ""), `"team":`, `"team":"other","team":`, 1)), true)
	add("not shared", frame(message("", "")), true)
	add("the same id", frame(message("", ""), message("text", `"another"`)), true)
	for _, text := range []string{"", "{", "[]", "null", "{}", `{"v":0}`, `{"v":"1"}`, `{"v":1,"messages":{}}`, `{"v":1,"messages":[5,null,[]]}`, `{"v":1,"receipts":[5,{"id":5},{"id":" "}]}`, `{"v":1,"query":[5,null," "]}`,
		`{"v":1,"messages":[],"messages":[]}`, `{"v":1,"ledger":" "}`, `{"v":1,"ledger":"` + long + `"}`, `{"v":2,"messages":5}`, `{"v":1e3}`, "\xff\xfe",
		`{"v":1,"ledger":"bad0","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}"} {
		add(fmt.Sprintf("%.40s", text), text, false)
	}
	var many, receipts, query []string
	for i := range 1000 {
		good["id"] = fmt.Sprintf(`"%s-%d"`, id, i)
		many = append(many, message("", ""))
		for _, stage := range []string{"verified", "stored", "none"} {
			receipts = append(receipts, fmt.Sprintf(`{"id":"%s-%d","stage":%q,"reason":"\u001b[2J"}`, id, i, stage))
		}
		query = append(query, good["id"], good["id"], good["id"])
	}
	add("many messages", frame(many...), false)
	add("many receipts", `{"v":1,"ledger":"bad0","receipts":[`+strings.Join(receipts, ",")+"]}", false)
	add("many ids", `{"v":1,"ledger":"bad0","query":[`+strings.Join(query, ",")+"]}", false)
	add("large", frame(message("text", `"`+strings.Repeat("x", 900_000)+`"`)), false)

	var teams []string
	for i := range 150 {
		var members []string
		for j := range 150 {
			members = append(members, fmt.Sprintf(`{"member":"m%d"}`, j))
		}
		teams = append(teams, fmt.Sprintf(`{"team":"t%d","members":[%s]}`, i, strings.Join(members, ",")))
	}
	for i, text := range []string{"", "{", "[]", "null", `{"v":"1"}`, `{"v":1,"instance":"a","instance":"b"}`, `{"v":1,"instance":"\ud800"}`, `{"v":1,"teams":{}}`, `{"v":99,"teams":5}`,
		`{"v":1,"ledger":"` + long + `"}`, `{"v":1,"ledger":"` + id + `","empty":true}`, `{"v":1,"ledger":"bad0","instance":"` + id + `"}`, `{"v":1,"ledger":"bad0","teams":[{"team":"../x"},{"team":"a"},{"team":"a"},{"team":" "}]}`,
		`{"v":1,"ledger":"bad0","teams":[{"team":"a","members":[{"member":"\n"},{"member":"m","since":"9999-12-31T23:59:59-23:59","why":"\u001b[2J` + long + `"}]}]}`,
		`{"v":1,"ledger":"bad0","teams":[` + strings.Join(teams, ",") + "]}"} {
		list = append(list, form{fmt.Sprint("presence ", i), text, true, false})
	}
	return list
}

// runDishonest sends all forms to a and b, over and over, until its parent ends it, and records how
// often, and which refusals it got: DIR HUB FINGERPRINT MILLISECONDS.
func runDishonest(args []string) error {
	dir := args[0]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	key, err := nats.ReadKey(filepath.Join(dir, "key"))
	if err != nil {
		return err
	}
	cards := map[string]nats.Card{}
	for _, m := range []string{"a", "b"} {
		text, err := os.ReadFile(filepath.Join(dir, m))
		if err == nil {
			cards[m], err = nats.ParseCard(string(text))
		}
		if err != nil {
			return err
		}
	}
	pause, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	wire, err := nats.Dial(ctx, nats.Options{Name: dishonest, Key: key, Hub: args[1], Fingerprint: args[2], Unpin: true, Card: func(peer string) (nats.Card, bool) { c, ok := cards[peer]; return c, ok }})
	if err != nil {
		return err
	}
	defer wire.Close()
	var did deeds
	did.Told = map[string]bool{}
	var mu sync.Mutex
	go func() { // the receipts that it gets
		for {
			a, err := wire.Next(ctx)
			if err != nil {
				return
			}
			if a.Frame == nil {
				continue
			}
			var f struct{ Receipts []ledger.Receipt }
			_ = json.Unmarshal(a.Frame, &f)
			mu.Lock()
			for _, r := range f.Receipts {
				if number, _, ok := strings.Cut(r.ID, "of"); ok && r.Stage == ledger.StageRefused && r.Reason != "" {
					did.Told[number] = true
				}
			}
			mu.Unlock()
			_ = a.Ack(ctx)
		}
	}()
	fmt.Println("ready")
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	all := forms("@id@")
	for n := 0; ctx.Err() == nil; n++ {
		for i, f := range all {
			id := fmt.Sprintf("%dof%d", i, n)
			f.text = strings.ReplaceAll(f.text, "@id@", id)
			for _, m := range []string{"a", "b"} {
				if f.presence {
					_ = wire.Tell(ctx, m, []byte(f.text))
				} else if err := wire.Publish(ctx, m, fmt.Sprint(m, id), []byte(f.text)); err == nil {
					did.Frames++
				}
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
		}
		mu.Lock()
		did.Rounds = n + 1
		text, err := json.Marshal(did)
		mu.Unlock()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "new"), text, 0o600)
		}
		if err == nil {
			err = os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "did"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deeds is the record of a dishonest machine.
type deeds struct {
	Rounds, Frames int
	Told           map[string]bool // by the number of the form
}

// addDishonest makes a third machine, and links a and b with it. They do not run yet.
func (b *bed) addDishonest() {
	b.Helper()
	key, err := nats.NewKey()
	b.must(err)
	b.must(os.MkdirAll(b.path(dishonest), 0o700))
	b.must(nats.WriteKey(b.path(dishonest, "key"), key))
	b.must(hub.Add(context.Background(), b.path("hub"), key.Card(dishonest), hub.AddOptions{}))
	for _, m := range []string{"a", "b"} {
		own, err := nats.ReadKey(b.path(m, "key"))
		b.must(err)
		b.must(os.WriteFile(b.path(dishonest, m), []byte(own.Card(m).String()), 0o600))
		b.ledger(m, func(lg *ledger.Ledger) {
			b.must(lg.Links.AddMachine(context.Background(), dishonest, key.Card(dishonest).String(), false))
		})
	}
}

// listens returns the address of the hub, if there are no namespaces.
func (b *bed) listens() string {
	text, err := os.ReadFile(b.path("listen"))
	b.must(err)
	return string(text)
}

// deeds returns the last record of the dishonest machine.
func (b *bed) deeds() (did deeds) {
	text, err := os.ReadFile(b.path(dishonest, "did"))
	if err == nil {
		err = json.Unmarshal(text, &did)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	return did
}

// A dishonest machine sends wrong frames and presences between the messages of honest ones, also while
// networks are cut and processes are killed: no message of the others is lost or delivered twice. The
// dishonest machine learns which of its messages were refused.
//
// TEAMBRIDGE_LINK_MESSAGES is the number of messages, with cuts and kills; none arrives later than 5 s after the
// fault that delayed it. Without the variable, the hub is killed once.
func TestDishonestMachine(t *testing.T) {
	t.Parallel()
	const short = 100
	messages := number(t, "TEAMBRIDGE_LINK_MESSAGES", short)
	long := messages != short
	if long {
		needNamespaces(t)
	}
	b := newBed(t, long)
	b.addDishonest()
	at, pause := "127.0.0.1:4222", "100ms"
	if !long {
		at, pause = b.listens(), "1ms"
	}
	b.startMachine("a")
	b.startMachine("b")
	b.start(dishonest, b.path(dishonest), "tls://"+at, b.fingerprint, pause)
	const rate = 50 // of both machines together, in a second
	var sent atomic.Int64
	var sending sync.WaitGroup
	over := make(chan struct{})
	for _, m := range []string{"a", "b"} {
		sending.Go(func() {
			b.ledger(m, func(lg *ledger.Ledger) {
				if err := put(t.Context(), lg, peerOf(m), 0, messages/2, rate/2, func() { sent.Add(1) }); err != nil {
					t.Error(err)
				}
			})
		})
	}
	go func() {
		sending.Wait()
		close(over)
	}()
	wait := func(d time.Duration) bool {
		select {
		case <-over:
			return false
		case <-time.After(d):
			return true
		}
	}
	var faults []fault
	during := func(what string, begin, end func(), last time.Duration) bool {
		f := fault{what: what, from: time.Now()}
		begin()
		wait(last)
		end()
		f.to = time.Now()
		faults = append(faults, f)
		return wait(7 * time.Second)
	}
	if !long {
		for sent.Load() < int64(messages)/2 && wait(10*time.Millisecond) {
		}
		during("the hub is killed", func() { b.kill("hub") }, b.restartHub, 0)
	}
	for more := long && wait(2*time.Second); more; {
		m := []string{"a", "b"}[rand.IntN(2)]
		switch rand.IntN(4) {
		case 0:
			more = during(m+" is cut off", func() { b.cut(m, true) }, func() { b.heal(m) }, 4*time.Second)
		case 1:
			more = during("the hub is killed", func() { b.kill("hub") }, b.restartHub, time.Second)
		case 2:
			more = during(m+" is killed", func() { b.kill(m) }, func() { b.startMachine(m) }, 0)
		case 3:
			more = during(m+" is away", func() { b.kill(m) }, func() { b.startMachine(m) }, 4*time.Second)
		}
	}
	<-over
	b.confirmed("a", messages/2)
	b.confirmed("b", messages/2)
	all := forms("")
	if len(all) < 50 {
		t.Errorf("there are %d forms", len(all))
	}
	limit := time.Now().Add(patience)
	missing := func() (names []string) {
		did := b.deeds()
		for i, f := range all {
			if f.told && !did.Told[fmt.Sprint(i)] {
				names = append(names, f.name)
			}
		}
		return names
	}
	for len(missing()) > 0 {
		if time.Now().After(limit) {
			t.Fatalf("its sender was not told of: %s", strings.Join(missing(), ", "))
		}
		time.Sleep(50 * time.Millisecond) // another process changes it
	}
	did := b.deeds()
	b.kill(dishonest)
	var worst time.Duration
	why := ""
	for _, m := range []string{"a", "b"} {
		c := b.count(m, messages/2)
		if c.lost+c.twice+c.overtaken > 0 {
			t.Errorf("of %d messages to %s: %d lost, %d delivered twice, %d overtaken", messages/2, m, c.lost, c.twice, c.overtaken)
		}
		for _, p := range c.passages {
			begin, of := p.sent, "no fault"
			for _, f := range faults {
				if f.from.Before(p.at) && f.to.After(begin) {
					begin, of = f.to, f.what
				}
			}
			if late := p.at.Sub(begin); late > worst {
				worst, why = late, fmt.Sprintf("to %s, sent %s, came %s, after: %s", m, p.sent.Format(time.TimeOnly), p.at.Format(time.TimeOnly), of)
			}
		}
	}
	t.Logf("%d forms, %d rounds, %d wrong frames, %d faults, %d honest messages; the latest came after %v (%s)", len(all), did.Rounds, did.Frames, len(faults), messages, worst.Round(time.Millisecond), why)
	if long && worst > 5*time.Second {
		t.Errorf("a message came %v after its fault (%s)", worst, why)
	}
}

// A fault is the time during which something was cut off or did not run.
type fault struct {
	what     string
	from, to time.Time
}
