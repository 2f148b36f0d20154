package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/relay/relaytest/killtest"
)

func mustHandoff(t *testing.T, l *Ledger) Handoff {
	t.Helper()
	h, found, err := l.Sessions.Handoff(t.Context(), bob)
	if err != nil || !found {
		t.Fatalf("handoff: found %t, %v", found, err)
	}
	return h
}

func TestHandoff(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ctx := t.Context()
	if _, found, err := l.Sessions.Handoff(ctx, bob); found || err != nil {
		t.Errorf("found %t, %v before there is one", found, err)
	}
	must(t, l.Sessions.RemoveHandoff(ctx, bob))
	h := Handoff{InboxKey: bob, At: AtTerminal, To: AtRelay, Reason: "a draft is at the prompt", Since: monday,
		Draft: "half a\nthought \xff", Typed: tuesday, Returned: 7}
	must(t, l.Sessions.SetHandoff(ctx, h))
	if diff := cmp.Diff(h, mustHandoff(t, l)); diff != "" {
		t.Errorf("handoff (-want +got):\n%s", diff)
	}
	elsewhere := bob
	elsewhere.Root = "/q"
	must(t, l.Sessions.SetHandoff(ctx, Handoff{InboxKey: elsewhere, At: AtRelay, Since: monday}))
	if all, err := l.Sessions.Handoffs(ctx, bob.Root); err != nil || len(all) != 1 || !all[0].Typed.Equal(tuesday) {
		t.Errorf("of one root: %v, %v", all, err)
	}
	if all, err := l.Sessions.Handoffs(ctx, ""); err != nil || len(all) != 2 {
		t.Errorf("of all roots: %v, %v", all, err)
	}

	must(t, l.Sessions.SetSession(ctx, Session{InboxKey: bob, ID: "s", State: RelayLocal, Mode: []byte{}}))
	info, found, err := l.Sessions.RelayInfo(ctx, bob)
	if err != nil || !found || info.State != RelayLocal {
		t.Errorf("info %+v, %t, %v", info, found, err)
	}
	h.Draft = ""
	if diff := cmp.Diff(&h, info.Handoff); diff != "" {
		t.Errorf("handoff in the info (-want +got):\n%s", diff)
	}

	must(t, l.Sessions.SetHandoff(ctx, Handoff{InboxKey: bob, At: AtRelay, Since: tuesday}))
	if diff := cmp.Diff(Handoff{InboxKey: bob, At: AtRelay, Since: tuesday}, mustHandoff(t, l)); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
	must(t, l.Sessions.RemoveHandoff(ctx, bob))
	if _, found, err := l.Sessions.Handoff(ctx, bob); found || err != nil {
		t.Errorf("found %t, %v after it was removed", found, err)
	}
}

func TestHandoffRefusesValues(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for what, h := range map[string]Handoff{
		"no place":      {InboxKey: bob},
		"another place": {InboxKey: bob, At: "here"},
		"a target":      {InboxKey: bob, At: AtRelay, To: "there"},
		"no inbox":      {At: AtRelay},
		"a long draft":  {InboxKey: bob, At: AtRelay, Draft: strings.Repeat("x", maxContent+1)},
	} {
		if err := l.Sessions.SetHandoff(t.Context(), h); !errors.As(err, new(*ValueError)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := l.Sessions.AskPlace(t.Context(), bob, "here", false); !errors.As(err, new(*ValueError)) {
		t.Errorf("asked for another place: %v", err)
	}
	if _, err := l.Sessions.AskPlace(t.Context(), bob, AtRelay, false); !errors.Is(err, ErrUnknown) {
		t.Errorf("asked where nothing moves: %v", err)
	}
	if all, err := l.Sessions.Handoffs(t.Context(), ""); err != nil || len(all) > 0 {
		t.Errorf("kept %v, %v", all, err)
	}
}

// A wish stays until the launcher has answered this very wish, or until it is taken back.
func TestWishesAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ctx := t.Context()
	ask := func(at Place, force bool, want int64) {
		t.Helper()
		if n, err := l.Sessions.AskPlace(ctx, bob, at, force); err != nil || n != want {
			t.Fatalf("wish %d, %v; want %d", n, err, want)
		}
	}
	check := func(wanted Place, force bool, answered int64, refused string) Handoff {
		t.Helper()
		h := mustHandoff(t, l)
		if h.Wanted != wanted || h.Force != force || h.Answered != answered || h.Refused != refused {
			t.Errorf("wanted %q, force %t, answered %d, refused %q; want %q, %t, %d, %q",
				h.Wanted, h.Force, h.Answered, h.Refused, wanted, force, answered, refused)
		}
		return h
	}
	must(t, l.Sessions.SetHandoff(ctx, Handoff{InboxKey: bob, At: AtTerminal}))
	ask(AtRelay, false, 1)
	seen := check(AtRelay, false, 0, "")
	seen.Reason = "busy"
	must(t, l.Sessions.SetHandoff(ctx, seen)) // recording something else does not answer the wish
	check(AtRelay, false, 0, "")

	ask(AtTerminal, true, 2) // after the launcher has read the first wish
	seen.At, seen.Reason, seen.Wanted = AtRelay, "", ""
	must(t, l.Sessions.SetHandoff(ctx, seen))
	seen = check(AtTerminal, true, 1, "")
	seen.Wanted, seen.Refused = "", "a teammate is alive"
	must(t, l.Sessions.SetHandoff(ctx, seen))
	check("", false, 2, "a teammate is alive")
	seen.Refused = ""
	must(t, l.Sessions.SetHandoff(ctx, seen)) // the answer stays
	check("", false, 2, "a teammate is alive")

	ask(AtRelay, false, 3)
	withdraw := func(wish int64, want bool) {
		t.Helper()
		if done, err := l.Sessions.WithdrawPlace(ctx, bob, wish); done != want || err != nil {
			t.Errorf("wish %d withdrawn: %t, %v; want %t", wish, done, err, want)
		}
	}
	withdraw(2, false)
	withdraw(3, true)
	withdraw(3, false)
	check("", false, 2, "a teammate is alive")
	ask(AtRelay, true, 4)
	withdraw(3, false)
	seen = check(AtRelay, true, 2, "a teammate is alive")
	seen.Wanted, seen.Refused = "", ""
	must(t, l.Sessions.SetHandoff(ctx, seen))
	check("", false, 4, "")
}

const eachWishes = 30

// childWishes asks for places and prints its wishes; the launcher grants each wish that it sees.
func childWishes(args []string) error {
	ctx, l, err := openAtOnce(args[0])
	if err != nil {
		return err
	}
	if args[1] != "launcher" {
		for i := range eachWishes {
			at := []Place{AtTerminal, AtRelay}[i%2]
			n, err := l.Sessions.AskPlace(ctx, bob, at, false)
			if err != nil {
				return err
			}
			fmt.Println(n, at)
		}
		return l.Close()
	}
	for {
		h, _, err := l.Sessions.Handoff(ctx, bob)
		if err != nil || h.Answered == 3*eachWishes {
			return errors.Join(err, l.Close())
		}
		if h.Wanted != "" {
			h.At, h.Wanted = h.Wanted, ""
			if err := l.Sessions.SetHandoff(ctx, h); err != nil {
				return err
			}
		}
	}
}

// While several processes wish and the launcher answers, each wish has its own number, and the session ends in the
// place of the last wish.
func TestManyProcessesWish(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	must(t, l.Sessions.SetHandoff(t.Context(), Handoff{InboxKey: bob, At: AtTerminal}))
	var printed [4]bytes.Buffer
	killtest.AtOnce(t, len(printed), func(i int) *exec.Cmd {
		role := []string{"launcher", "asker"}[min(i, 1)]
		cmd := killtest.Command(t.Context(), "wishes", path, role)
		cmd.Stdout = &printed[i]
		return cmd
	})
	wishes := map[int64]Place{}
	for i := range printed {
		for line := range strings.Lines(printed[i].String()) {
			var n int64
			var at Place
			if _, err := fmt.Sscan(line, &n, &at); err != nil {
				t.Fatal(err)
			}
			wishes[n] = at
		}
	}
	h := mustHandoff(t, l)
	if last := int64(3 * eachWishes); len(wishes) != int(last) || h.Wish != last || h.Answered != last || h.Wanted != "" || h.At != wishes[last] {
		t.Errorf("%d wishes, handoff %+v; the last one wants %s", len(wishes), h, wishes[last])
	}
}

// OpenPrompts counts only prompts after the one at which the session returned.
func TestOpenPrompts(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ctx := t.Context()
	check := func(after int64, n int, newest int64) {
		t.Helper()
		if gotN, got, err := l.Deliveries.OpenPrompts(ctx, bob, after); gotN != n || got != newest || err != nil {
			t.Errorf("after %d: %d up to %d, %v; want %d up to %d", after, gotN, got, err, n, newest)
		}
	}
	check(0, 0, 0)
	check(5, 0, 5)
	must(t, l.Deliveries.Claim(ctx, anInput("one"), aRow("row"), anInput("three")))
	check(0, 2, 3)
	check(1, 1, 3)
	check(3, 0, 3)
	must(t, l.Frames.Commit(ctx, aFrame("f"), "one")) // in flight, and so still open
	check(0, 2, 3)
	must(t, l.Deliveries.Drop(ctx, "three"))
	check(0, 1, 1)
}

// A launcher's record of the session and a person's requests are flushed to the disk before they count.
func TestHandoffsWaitForTheDisk(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for what, do := range map[string]func() error{
		"SetHandoff": func() error {
			return l.Sessions.SetHandoff(t.Context(), Handoff{InboxKey: bob, At: AtTerminal, Draft: "x", Typed: time.Now()})
		},
		"RemoveHandoff": func() error { return l.Sessions.RemoveHandoff(t.Context(), bob) },
	} {
		must(t, l.Holds.Answered(t.Context(), bob, "*"))
		must(t, do())
		if got, err := number(l, "PRAGMA synchronous"); err != nil || got != 3 {
			t.Errorf("%s was committed with synchronous=%d, %v; want 3", what, got, err)
		}
	}
}
