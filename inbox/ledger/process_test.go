package ledger

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/sqlite"
	"teambridge/relay/relaytest/killtest"
)

func TestMain(m *testing.M) {
	flag.Set("rapid.checks", "25") // unless the command line says otherwise
	killtest.Main(m, children())
}

func children() killtest.Roles {
	list := killtest.Roles{
		"intends": childIntends,
		"forever": childForever,
		"relay":   childRelay,
		"claims":  childClaims,
		"rivals":  childRivals,
		"wishes":  childWishes,
		"leave":   childSend,
	}
	maps.Copy(list, diskChildren())
	return list
}

// envRounds has the number of rounds of kills at random instants, and of concurrent processes. The default is small.
const envRounds = "LEDGER_TEST_ROUNDS"

// openAtOnce opens a ledger in a process of [killtest.AtOnce].
func openAtOnce(path string) (context.Context, *Ledger, error) {
	if err := killtest.Started(); err != nil {
		return nil, nil, err
	}
	ctx, _ := childContext() // ends with the process
	l, err := Open(ctx, path)
	return ctx, l, err
}

func childContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

const eachIntends = 50

func childIntends(args []string) error {
	ctx, l, err := openAtOnce(args[0])
	if err != nil {
		return err
	}
	for i := range eachIntends {
		send := aSend(fmt.Sprintf("%s-%d", args[1], i))
		if err := l.Sends.Intend(ctx, send); err != nil {
			return err
		}
		if i%2 == 1 {
			if err := l.Sends.Written(ctx, send.SendKey, tuesday); err != nil {
				return err
			}
		}
	}
	return l.Close()
}

// The ledger has every step of each process that uses it at the same time.
func TestManyProcessesOnOneLedger(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "ledger.db")
	const processes = 8
	killtest.AtOnce(t, processes, func(i int) *exec.Cmd {
		return killtest.Command(t.Context(), "intends", path, fmt.Sprint(i))
	})

	l := mustOpen(t, path)
	for p := range processes {
		for i := range eachIntends {
			send := aSend(fmt.Sprintf("%d-%d", p, i))
			send.State = Intent
			if i%2 == 1 {
				send.State, send.At = Written, tuesday
			}
			want(t, l, send)
		}
	}
	if n, err := number(l, "SELECT count(*) FROM sends"); err != nil || n != processes*eachIntends {
		t.Errorf("%d rows, %v; want %d", n, err, processes*eachIntends)
	}
}

// childForever intends and reports until it is killed.
func childForever(args []string) error {
	ctx, cancel := childContext()
	defer cancel()
	l, err := Open(ctx, args[0])
	if err != nil {
		return err
	}
	for i := 0; ctx.Err() == nil; i++ {
		send := aSend(fmt.Sprintf("%s-%d", args[1], i))
		if err := l.Sends.Intend(ctx, send); err != nil {
			return err
		}
		fmt.Printf("%s %s\n", Intent, send.ID)
		if i%2 == 1 {
			if err := l.Sends.Written(ctx, send.SendKey, tuesday); err != nil {
				return err
			}
			fmt.Printf("%s %s\n", Written, send.ID)
		}
	}
	return ctx.Err()
}

func wantIntact(t *testing.T, l *Ledger) {
	t.Helper()
	var answer string
	must(t, query(l, func(v sqlite.Row) {
		answer = v.Text(0)
	}, "PRAGMA integrity_check"))
	if answer != "ok" {
		t.Fatalf("integrity check: %s", answer)
	}
}

func TestKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	kill := func(path, name string, lines int, acknowledged map[string]State) {
		t.Helper()
		writer := func(i int) *exec.Cmd {
			return killtest.Command(t.Context(), "forever", path, fmt.Sprintf("%s-%d", name, i))
		}
		for _, said := range killtest.KillAll(t, lines, writer(0), writer(1)) {
			for _, line := range said {
				state, id, _ := strings.Cut(line, " ")
				acknowledged[id] = State(state)
			}
		}
	}
	verify := func(path string, acknowledged map[string]State) {
		t.Helper()
		l := mustOpen(t, path)
		wantIntact(t, l)
		for id, state := range acknowledged {
			got, found, err := l.Sends.Recall(t.Context(), aKey(id))
			must(t, err)
			// The step can have gone further than the process could report.
			if !found || got.State != state && state != Intent || got.Digest != aSend(id).Digest {
				t.Errorf("%s was acknowledged as %s; the ledger has %v, %v", id, state, found, got)
			}
		}
		must(t, l.Close())
	}

	dir := t.TempDir()
	one := filepath.Join(dir, "one.db")
	all := map[string]State{}
	n := killtest.Rounds(t, envRounds, 5)
	for i := range n {
		acknowledged := map[string]State{}
		kill(one, fmt.Sprint(i), 1+rand.N(40), acknowledged)
		verify(one, acknowledged)
		maps.Copy(all, acknowledged)
	}
	verify(one, all)
	if len(all) < 5*n {
		t.Errorf("only %d intents were acknowledged: the test did not test", len(all))
	}
	// Killed while the ledger is being made.
	for i := range n {
		path := filepath.Join(dir, fmt.Sprint("new", i, ".db"))
		acknowledged := map[string]State{}
		kill(path, "new", i%2, acknowledged)
		verify(path, acknowledged)
	}
}

// childSend uses a ledger as a command that sends one message does.
func childSend(args []string) error {
	ctx := context.Background()
	l, err := Open(ctx, args[0])
	if err != nil {
		return err
	}
	send := aSend(args[1])
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	send.Before = strings.Repeat("x", n)
	if _, found, err := l.Sends.Recall(ctx, send.SendKey); err != nil || found {
		return fmt.Errorf("found %v: %v", found, err)
	}
	if err := l.Sends.Intend(ctx, send); err != nil {
		return err
	}
	return l.Sends.Written(ctx, send.SendKey, tuesday)
}

// The log does not grow without limit if processes leave Close out.
func TestLogStaysShortWithoutClose(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	const sends, size = 12, 60_000
	for i := range sends {
		if out, err := killtest.Command(t.Context(), "leave", path, fmt.Sprint(i), fmt.Sprint(size)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	info, err := os.Stat(path + "-wal")
	must(t, err)
	if limit := int64(64*4096 + 300_000); info.Size() > limit {
		t.Errorf("the log has %d bytes, want at most %d", info.Size(), limit)
	}
	l := mustOpen(t, path)
	for i := range sends {
		send := aSend(fmt.Sprint(i))
		send.Before, send.State, send.At = strings.Repeat("x", size), Written, tuesday
		want(t, l, send)
	}
}
