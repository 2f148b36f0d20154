package inbox

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fresh parses without a cache.
func fresh(data []byte) (rows []*Row, err error) {
	spans, err := elements(data, nil)
	for _, s := range spans {
		row, ok := parseRow(s.Of(data))
		if row.Raw = nil; !ok {
			rows = append(rows, nil)
			continue
		}
		rows = append(rows, &row)
	}
	return rows, err
}

// A cache returns the same rows as a new parse, whatever happens to the file: rows are appended or removed, any byte
// changes, the file is torn, or it is another file.
func TestPastIsAsParsedAnew(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	row := func() string {
		switch rnd.IntN(6) {
		case 0:
			return []string{"12", "1", "123", "null", `"x"`, "[1, 2]", "{}", "true"}[rnd.IntN(8)]
		case 1:
			return fmt.Sprintf(`{"from":"w","text":"%d","timestamp":"t","read":true,"relayedBy":"%d"}`, rnd.IntN(3), rnd.IntN(99))
		}
		return fmt.Sprintf("{\"from\": \"w\",\n \"text\": %q, \"more\": {\"a\": %d}}", strings.Repeat("x", rnd.IntN(20)), rnd.IntN(3))
	}
	var p parseCache
	parsed, corrupt := 0, 0
	var rows []string
	for range 10_000 {
		switch k := rnd.IntN(10); {
		case k < 4:
			rows = append(rows, row())
		case k < 6 && len(rows) > 0:
			rows[rnd.IntN(len(rows))] = row()
		case k < 7 && len(rows) > 0:
			i := rnd.IntN(len(rows))
			rows = slices.Delete(rows, i, i+1)
		case k < 8 && len(rows) > 20:
			rows = nil
		}
		data := []byte("[" + strings.Join(rows, []string{",", ", ", "\n,"}[rnd.IntN(3)]) + "]")
		if rnd.IntN(4) == 0 {
			data[rnd.IntN(len(data))] = `[]{},:"0123x \`[rnd.IntN(14)]
		}
		if rnd.IntN(10) == 0 {
			data = data[:rnd.IntN(len(data)+1)]
		}
		want, wantErr := fresh(bytes.Clone(data))
		spans, got, err := p.parse(data)
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%s: got %v, want %v", data, err, wantErr)
		}
		if err != nil {
			corrupt++
			continue
		}
		parsed++
		if plain, err := elements(data, nil); err != nil || !slices.Equal(plain, spans) {
			t.Fatalf("%s: elements %v, want %v, %v", data, spans, plain, err)
		}
		if len(want)+len(got) > 0 && !reflect.DeepEqual(want, got) {
			t.Fatalf("%s (-anew +remembered):\n%s", data, cmp.Diff(want, got))
		}
	}
	if parsed < 2000 || corrupt < 500 {
		t.Errorf("%d parsed and %d corrupt are too few to tell", parsed, corrupt)
	}
}

// A cache keeps no file but the last in memory, although each row of it may have been parsed from another.
func TestPastKeepsOneFile(t *testing.T) {
	t.Parallel()
	var p parseCache
	file := []byte(`[{"from":"w","text":"0","relayedBy":"0"}]`)
	for i := range 50 {
		file = slices.Concat(file[:len(file)-1], fmt.Appendf(nil, `,{"from":"w","text":"%d","relayedBy":"%d"}]`, i, i))
		if _, _, err := p.parse(file); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range p.rows {
		if r.Raw != nil {
			t.Fatalf("row %d is kept with its file", i)
		}
		if extra := r.Extra["relayedBy"]; cap(extra) > 64 {
			t.Fatalf("a field of row %d is kept with %d bytes", i, cap(extra))
		}
	}
}

// An inbox with a cache reads and edits the same as one without, even if both take turns.
func TestCachedInbox(t *testing.T) {
	t.Parallel()
	plain := newTeam(t).inbox("alice")
	remembering := plain.Cached()
	for i := range 30 {
		writer, other := plain, remembering
		if i%2 == 0 {
			writer, other = other, writer
		}
		err := writer.Edit(t.Context(), func(d *Draft) error {
			for n, row := range d.All() {
				if n%3 == i%3 && !bytes.Equal(row.Raw, d.spans[n].Of(d.data)) {
					t.Errorf("row %d is %s", n, row.Raw)
				}
				if n%7 == i%7 {
					d.Remove(n)
				} else if n%5 == i%5 {
					if err := d.Set(n, "relayedBy", fmt.Sprint(i)); err != nil {
						return err
					}
				}
			}
			for k := range 5 {
				d.append(fmt.Appendf(nil, `{"from":"w","text":"%d of %d","timestamp":"t","more":[%d]}`, k, i, k))
			}
			return nil
		})
		must(t, err)
		for range 2 {
			a, aerr := writer.Read(t.Context())
			b, berr := other.Read(t.Context())
			if diff := cmp.Diff(a, b); diff != "" || aerr != nil || berr != nil || len(a) == 0 {
				t.Fatalf("%v, %v, %d rows: %s", aerr, berr, len(a), diff)
			}
		}
	}
}

// A large file is parsed only from the first byte that has changed, and only the files that were read last are
// cached, up to a limit.
func TestRecentInboxes(t *testing.T) {
	t.Parallel()
	r := recentInboxes{caches: map[string]*parseCache{}, sizes: map[string]int{}}
	file := func(rows int) []byte {
		return fmt.Appendf(nil, "[%s]", strings.Join(slices.Repeat([]string{`{"from":"w","text":"` + strings.Repeat("word ", 2000) + `","timestamp":"t"}`}, rows), ","))
	}
	_, first, err := r.parse("a", file(100))
	if err != nil || len(first) != 100 {
		t.Fatal(len(first), err)
	}
	_, more, err := r.parse("a", file(101))
	if err != nil || len(more) != 101 || more[98] != first[98] {
		t.Errorf("%d rows, %v, parsed again: %v", len(more), err, more[98] != first[98])
	}
	for i := range 20 {
		if _, _, err := r.parse(fmt.Sprint(i), file(100)); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for _, size := range r.sizes {
		total += size
	}
	if total != r.total || total > keptInboxes || len(r.caches) != len(r.sizes) || len(r.order) != len(r.sizes) || r.caches["a"] != nil || r.caches["19"] == nil {
		t.Errorf("%d bytes of %v are kept, counted as %d", total, r.order, r.total)
	}
	if _, rows, err := r.parse("large", file(1000)); err != nil || len(rows) != 1000 || r.caches["large"] != nil || r.total != 0 {
		t.Errorf("%d rows, %v, and %d bytes are kept", len(rows), err, r.total)
	}
}
