package journal

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/relay/relaytest/killtest"
)

// said returns an envelope of bob, from the given number of seconds after monday.
func said(id string, seconds float64, text string) Envelope {
	return Envelope{
		InboxKey: inbox.Key(root, blue(), "bob"), ID: id, Session: "s1", Turn: "t1", Kind: "text", Role: "agent",
		At: at(seconds), Raw: fmt.Appendf(nil, `{"id":%q,"ev":{"t":"text","text":%q}}`, id, text),
	}
}

func record(t testing.TB, j *Journal, list ...Envelope) []bool {
	t.Helper()
	recorded, err := j.Envelopes.Record(t.Context(), list...)
	must(t, err)
	return recorded
}

func envelopes(t testing.TB, j *Journal, q EnvelopeQuery) (list []Envelope) {
	t.Helper()
	for e, err := range j.Envelopes.All(t.Context(), q) {
		must(t, err)
		list = append(list, e)
	}
	return list
}

// ids returns envelopes as one text: "1a 2b".
func ids(list []Envelope) string {
	var s []string
	for _, e := range list {
		s = append(s, fmt.Sprint(e.Seq, e.ID))
	}
	return strings.Join(s, " ")
}

func TestEnvelopeIsRecordedOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j, other := mustOpen(t, path), mustOpen(t, path)
	e := Envelope{
		InboxKey: inbox.Key(root, blue(), "bob"), ID: "a", Session: "s1", Turn: "t1", Call: "c1", Subagent: "sub", Kind: "tool-call-start", Role: "agent",
		At: at(1), Raw: []byte(`{"id":"a","ev":{"t":"tool-call-start","title":"go test"}}`),
	}
	if diff := cmp.Diff([]bool{true, false}, record(t, j, e, e)); diff != "" {
		t.Error(diff)
	}
	elsewhere := e
	elsewhere.Inbox = "kim"
	if diff := cmp.Diff([]bool{false, true, true}, record(t, other, e, said("b", 2, "more"), elsewhere)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]bool{false}, record(t, j, said("b", 3, "as it was read again"))); diff != "" {
		t.Error(diff)
	}
	want := e
	want.Seq = 1
	if diff := cmp.Diff([]Envelope{want}, envelopes(t, j, EnvelopeQuery{Call: "c1", Query: Query{Inbox: "bob"}})); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if got := ids(envelopes(t, j, EnvelopeQuery{})); got != "1a 2b 3a" {
		t.Errorf("recorded %s, want each once for each agent", got)
	}
	sound(t, j)
}

func TestEnvelopesStandInOneOrderWithMessages(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	observe(t, j, look(t, 1, row("do it")))
	record(t, j, said("a", 2, "working"), said("b", 3, "still"))
	observe(t, j, look(t, 4))
	record(t, j, said("c", 5, "done"))
	list, err := j.Messages.Changes(t.Context(), 0, 10)
	must(t, err)
	wantChanges(t, list, "1 appeared do it#1, 2 envelope a, 3 envelope b, 4 gone do it#1, 5 envelope c")
	for _, c := range list {
		if p, err := j.PositionAt(t.Context(), c.Seq); err != nil || p.Epoch != c.Epoch {
			t.Errorf("change %d has epoch %s, want %s (%v)", c.Seq, c.Epoch, p.Epoch, err)
		}
	}
	if list, err = j.Messages.Changes(t.Context(), 2, 2); err != nil {
		t.Fatal(err)
	}
	wantChanges(t, list, "3 envelope b, 4 gone do it#1")
}

func TestEnvelopeQuery(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	list := []Envelope{said("a", 1, ""), said("b", 2, ""), said("c", 3, ""), said("d", 4, ""), said("e", 5, "")}
	list[1].Turn, list[1].Kind, list[1].Call = "t2", "tool-call-start", "c1"
	list[2].Role, list[2].Session = "user", "s2"
	list[3].Inbox = "kim"
	list[4].Root = "/other"
	record(t, j, list...)
	for want, q := range map[string]*EnvelopeQuery{
		"1a 2b 3c 4d 5e": {},
		"5e 4d":          {Query: Query{Newest: true, Limit: 2}},
		"2b 3c":          {Query: Query{After: 1, Before: 4}},
		"3c 4d":          {Query: Query{Since: at(3), Until: at(5)}},
		"1a 2b 3c":       {Query: Query{Root: root, From: "bob"}},
		"4d":             {Query: Query{From: "kim", Inbox: "kim"}},
		"":               {Query: Query{From: "kim", Inbox: "bob"}},
		"2b":             {Turn: "t2"},
		"3c":             {Session: "s2", Role: "user"},
		"1a 4d 5e":       {Role: "agent", Kinds: []string{"text", "file"}},
		"2b ":            {Call: "c1", Kinds: []string{"tool-call-start"}},
	} {
		if got := ids(envelopes(t, j, *q)); got != strings.TrimSpace(want) {
			t.Errorf("%+v: got %s, want %s", *q, got, want)
		}
	}
}

func TestLastEnvelope(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	record(t, j, said("a", 7, ""), said("b", 5, ""))
	elsewhere := said("a", 9, "")
	elsewhere.Inbox = "kim"
	record(t, j, elsewhere)
	for want, session := range map[time.Time]string{at(7): "s1", {}: "s2"} {
		got, err := j.Envelopes.Last(t.Context(), said("", 0, "").InboxKey, session)
		if err != nil || !got.Equal(want) {
			t.Errorf("of %s: %v, %v; want %v", session, got, err, want)
		}
	}
}

func TestBadEnvelopesAreRefused(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	for want, change := range map[string]func(*Envelope){
		"root": func(e *Envelope) { e.Root = "" }, "team": func(e *Envelope) { e.Team = " " }, "inbox": func(e *Envelope) { e.Inbox = "" },
		"id": func(e *Envelope) { e.ID = "" }, "session": func(e *Envelope) { e.Session = "" }, "kind": func(e *Envelope) { e.Kind = "" },
		"role": func(e *Envelope) { e.Role = "" }, "time": func(e *Envelope) { e.At = time.Time{} }, "JSON": func(e *Envelope) { e.Raw = []byte("{") },
	} {
		e := said("b", 2, "")
		change(&e)
		_, err := j.Envelopes.Record(t.Context(), said("a", 1, ""), e)
		if v := new(ValueError); !errors.As(err, &v) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if last, err := j.Last(t.Context()); err != nil || last != 0 {
		t.Errorf("the last number is %d, %v; want nothing recorded", last, err)
	}
}

// Envelopes of a team whose creation time was not yet known are moved to the team once it is known.
func TestEnvelopesAreAdopted(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	e := said("a", 1, "")
	e.CreatedAt = 0
	record(t, j, e)
	must(t, j.Messages.Adopt(t.Context(), root, blue()))
	if diff := cmp.Diff([]bool{false, true}, record(t, j, said("a", 1, ""), said("b", 2, ""))); diff != "" {
		t.Errorf("after Adopt: %s", diff)
	}
	if got := ids(envelopes(t, j, EnvelopeQuery{Query: Query{CreatedAt: blue().CreatedAt}})); got != "1a 2b" {
		t.Errorf("the team has %s, want both", got)
	}
}

// The inbox of an agent that was never observed, or has no messages left, is pruned with its last envelope, and not
// before. A process that remembers the inbox must not record under its old number.
func TestEnvelopesKeepTheirInbox(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := mustOpen(t, path)
	observe(t, j, look(t, 1, row("a")))
	observe(t, j, look(t, 2))
	record(t, j, said("a", 3, ""))
	_, err := j.Prune(t.Context(), at(10), 0)
	must(t, err)
	record(t, j, said("b", 12, ""))
	if got := ids(envelopes(t, j, EnvelopeQuery{Query: Query{Inbox: "bob"}})); got != "3a 4b" {
		t.Errorf("bob has %s, want both", got)
	}
}

func TestInboxThatWasMadeAgain(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	record(t, j, said("a", 1, ""))
	observe(t, j, look(t, 2)) // this process remembers the inbox
	must(t, run(j, "DELETE FROM envelopes"))
	_, err := j.Prune(t.Context(), at(10), 0)
	must(t, err)
	record(t, j, said("b", 11, ""))
	observe(t, j, look(t, 12, row("hello")))
	if got := texts(messages(t, j, Query{Inbox: "bob"})); got != "hello" {
		t.Errorf("bob has %q, want the message", got)
	}
}

func TestPruneEnvelopes(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	observe(t, j, look(t, 1, row("message")))
	observe(t, j, look(t, 2))
	record(t, j, said("a", 3, "old"), said("b", 4, "old"), said("c", 5, "kept"))
	p, err := j.PruneEnvelopes(t.Context(), at(5))
	must(t, err)
	if p.Envelopes != 2 || p.Messages != 0 || p.Bytes == 0 {
		t.Errorf("pruned %+v, want 2 envelopes", p)
	}
	if got := ids(envelopes(t, j, EnvelopeQuery{})); got != "5c" {
		t.Errorf("left %s, want the newest", got)
	}
	if hits := searchEnvelopes(t, j, "old", EnvelopeQuery{}); len(hits) != 0 {
		t.Errorf("still found: %v", hits)
	}
	for after, gap := range map[int64]bool{3: true, 4: false} {
		if _, err := j.Messages.Changes(t.Context(), after, 10); errors.Is(err, ErrPruned) != gap {
			t.Errorf("changes after %d: %v", after, err)
		}
	}
	// The transcript is read again, from its last part or as a whole.
	if diff := cmp.Diff([]bool{false, false, false, true}, record(t, j, said("a", 3, ""), said("b", 4, ""), said("c", 5, ""), said("d", 6, ""))); diff != "" {
		t.Errorf("after it was read again: %s", diff)
	}
	_, err = j.PruneEnvelopes(t.Context(), at(100))
	must(t, err)
	for range 2 {
		_, err = j.Prune(t.Context(), at(100), 0)
		must(t, err)
		if got, err := j.Envelopes.Last(t.Context(), said("", 0, "").InboxKey, "s1"); err != nil || !got.Equal(at(6)) {
			t.Errorf("the last envelope was at %v, %v; want %v", got, err, at(6))
		}
	}
	if diff := cmp.Diff([]bool{false, true}, record(t, j, said("d", 6, ""), said("e", 7, ""))); diff != "" {
		t.Errorf("after all was pruned: %s", diff)
	}
	// Envelopes are not kept forever.
	_, err = j.PruneEnvelopes(t.Context(), at(100))
	must(t, err)
	j.now = func() time.Time { return at(7).Add(transcriptAge + time.Second) }
	_, err = j.Prune(t.Context(), at(100), 0)
	must(t, err)
	if n := number(t, j, "SELECT (SELECT count(*) FROM pruned_sessions) + (SELECT count(*) FROM inboxes)") + int64(len(inIndex(t, j))); n != 0 {
		t.Errorf("%d records are left, want none", n)
	}
}

// A journal that is too large first loses envelopes, and then messages.
func TestPruneBySizeBeginsWithEnvelopes(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	observe(t, j, look(t, 1, row("message "+strings.Repeat("word ", 2000))))
	observe(t, j, look(t, 2))
	const many = 1200
	var list []Envelope
	for i := range many {
		list = append(list, said(fmt.Sprint("e", i), float64(3+i), strings.Repeat(fmt.Sprintf("word%d ", i%97), 40)))
	}
	record(t, j, list...)
	all := number(t, j, "SELECT page_count*4096 FROM pragma_page_count")
	p, err := j.Prune(t.Context(), at(0), all/2)
	must(t, err)
	if p.Messages != 0 || p.Envelopes < many/3 || p.Envelopes > many*9/10 || p.Bytes > all/2 {
		t.Errorf("pruned %+v of %d bytes, want about half of the envelopes", p, all)
	}
	left := envelopes(t, j, EnvelopeQuery{})
	if len(left) != many-int(p.Envelopes) || left[len(left)-1].ID != fmt.Sprint("e", many-1) {
		t.Errorf("%d envelopes are left after %+v", len(left), p)
	}
	if p, err = j.Prune(t.Context(), at(0), 1); err != nil || p.Messages != 1 || int(p.Envelopes) != len(left) {
		t.Errorf("pruned %+v, %v; want the rest", p, err)
	}
	sound(t, j)
}

func searchEnvelopes(t testing.TB, j *Journal, words string, q EnvelopeQuery) (list []string) {
	t.Helper()
	for h, err := range j.Envelopes.Search(t.Context(), words, q) {
		must(t, err)
		list = append(list, h.ID+": "+h.Snippet)
	}
	return list
}

func TestSearchEnvelopes(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	observe(t, j, look(t, 1, row("the build is a message")))
	tool := said("c", 4, "go test ./... run the build 🎉")
	tool.Kind = "tool-call-start"
	record(t, j, said("a", 2, "The build fails"), said("b", 3, "中文信息在这里 build"), tool, said("d", 5, ""))
	for words, want := range map[string][]string{
		"build":    {"c: go test ./... run the build 🎉", "b: 中文信息在这里 build", "a: The build fails"},
		"BUILD 🎉":  {"c: go test ./... run the build 🎉"},
		"信息":       {"b: 中文信息在这里 build"},
		"the fa*":  {"a: The build fails"},
		"treasure": nil,
	} {
		if diff := cmp.Diff(want, searchEnvelopes(t, j, words, EnvelopeQuery{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", words, diff)
		}
	}
	if diff := cmp.Diff([]string{"b: 中文信息在这里 build"}, searchEnvelopes(t, j, "build", EnvelopeQuery{Query: Query{Before: 4, Limit: 1}, Kinds: []string{"text"}})); diff != "" {
		t.Error(diff)
	}
	// Messages are found as before, without the envelopes.
	if got := found(search(t, j, "build", Query{})); got != "1" {
		t.Errorf("messages %s, want the one", got)
	}
	for range 300 { // more than a page
		record(t, j, said(fmt.Sprint("page", number(t, j, "SELECT seq FROM counter")), 9, "treasure"))
	}
	if n := len(searchEnvelopes(t, j, "treasure", EnvelopeQuery{})); n != 300 {
		t.Errorf("%d hits, want 300", n)
	}
	for _, err := range j.Envelopes.Search(t.Context(), " ", EnvelopeQuery{}) {
		if !errors.As(err, new(*ValueError)) {
			t.Errorf("blank words: %v", err)
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	of := func(list ...int) func(func(int64, error) bool) {
		return func(yield func(int64, error) bool) {
			for _, n := range list {
				var err error
				if n < 0 {
					err = broken
				}
				if !yield(int64(n), err) {
					return
				}
			}
		}
	}
	same := func(n int64) int64 { return n }
	for want, merged := range map[string]func(func(int64, error) bool){
		"1 2 3 4 5": Merge(false, same, of(1, 4), of(), of(2, 3, 5)),
		"5 4 2 1":   Merge(true, same, of(4, 2), of(5, 4, 1)),
		"1 2 -1!":   Merge(false, same, of(1, 2, -1, 9), of(3)),
		"":          Merge(false, same),
	} {
		var got []string
		for n, err := range merged {
			text := fmt.Sprint(n)
			if err != nil {
				text += "!"
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	for n := range Merge(false, same, of(1, 2), of(3)) {
		if n == 2 {
			break
		}
	}
}

func TestExportHasEnvelopes(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	record(t, j, said("a", 1, ""))
	observe(t, j, look(t, 2, row("message")))
	record(t, j, said("b", 3, ""))
	var out strings.Builder
	must(t, j.Export(t.Context(), &out, Query{Inbox: "bob"}))
	lines := strings.Split(out.String(), "\n")
	want := `{"seq":1,"root":"/home/ann/.claude","team":"blue","createdAt":1763280000000,"inbox":"bob","id":"a","session":"s1","envelope":{"id":"a","ev":{"t":"text","text":""}}}`
	if len(lines) != 4 || lines[0] != want || !strings.HasPrefix(lines[1], `{"seq":2,`) || !strings.HasPrefix(lines[2], `{"seq":3,`) {
		t.Errorf("exported\n%s", out.String())
	}
}

const eachEnvelopes = 300

// childRecord records the same envelopes as the other processes, some at a time.
func childRecord(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := killtest.Started(); err != nil {
		return err
	}
	j, err := Open(ctx, args[0])
	if err != nil {
		return err
	}
	for n := 0; n < eachEnvelopes; n += 3 {
		var list []Envelope
		for i := range 3 {
			list = append(list, said(fmt.Sprint("e", n+i), float64(n+i), "word"))
		}
		if _, err := j.Envelopes.Record(ctx, list...); err != nil {
			return err
		}
	}
	return j.Close()
}

func TestManyProcessesRecordEachEnvelopeOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	killtest.AtOnce(t, 4, func(int) *exec.Cmd { return killtest.Command(t.Context(), "record", path) })
	j := mustOpen(t, path)
	for i, e := range envelopes(t, j, EnvelopeQuery{}) {
		if e.ID != fmt.Sprint("e", i) || e.Seq != int64(i+1) {
			t.Fatalf("envelope %d is %s with number %d", i, e.ID, e.Seq)
		}
	}
	if last, err := j.Last(t.Context()); err != nil || last != eachEnvelopes {
		t.Errorf("the last number is %d, %v; want %d", last, err, eachEnvelopes)
	}
	sound(t, j)
}
