package journal

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model is the journal's promise about one inbox in its simplest form: without a database, without kept bytes, by
// walking every list.
type model struct {
	list    []known
	newest  float64 // time of the newest snapshot, as this process knows it
	written float64 // the time as another process would find it
}

type known struct {
	Text       string
	Occurrence int
	Read, Gone bool
}

type modelRow struct {
	text string
	read bool
}

func (m *model) observe(at float64, rows []modelRow) {
	newer := at >= m.newest
	changed := false
	next := slices.Clone(m.list)
	add := func(k known) {
		next = append(next, k)
		changed = true
	}
	for i, r := range rows {
		// The row's occurrence among its equals, and their number.
		k, n := 0, 0
		for o, other := range rows {
			if other.text == r.text {
				n++
				if o < i {
					k++
				}
			}
		}
		var present []int
		ever := 0
		for at, known := range m.list {
			if known.Text != r.text {
				continue
			}
			ever++
			if !known.Gone {
				present = append(present, at)
			}
		}
		switch {
		case newer && k+max(0, len(present)-n) < len(present):
			known := &next[present[k+max(0, len(present)-n)]]
			if r.read && !known.Read {
				known.Read, changed = true, true
			}
		case newer:
			add(known{r.text, ever + 1 + k - len(present), r.read, false})
		case k >= ever:
			add(known{r.text, k + 1, r.read, true})
		}
	}
	if newer {
		for at, known := range m.list {
			if known.Gone {
				continue
			}
			// Gone if as many of its equals after it are present as are in the file.
			after, n := 0, 0
			for _, other := range m.list[at+1:] {
				if other.Text == known.Text && !other.Gone {
					after++
				}
			}
			for _, r := range rows {
				if r.text == known.Text {
					n++
				}
			}
			if after >= n {
				next[at].Gone, changed = true, true
			}
		}
		if len(m.list) > 0 || changed {
			m.newest = at
		}
	}
	if changed {
		m.written = m.newest
	}
	m.list = next
}

func TestHistoriesAgainstAModel(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		name := fmt.Sprint("inbox", n)
		var m model
		var now []modelRow
		type taken struct {
			at   float64
			rows []modelRow
		}
		var old []taken
		text := rapid.SampledFrom([]string{"a", "b", "c"})
		clock := 0.0
		give := func(at float64, rows []modelRow) {
			var lines []string
			for _, r := range rows {
				more := []string{fmt.Sprintf(`"read":%v`, r.read)}
				if r.text == "b" {
					more = append(more, `"messageId":"always the same"`)
				}
				lines = append(lines, row(r.text, more...))
			}
			s := look(t, at, lines...)
			s.Inbox = name
			if _, err := j.Messages.Observe(t.Context(), s); err != nil {
				rt.Fatal(err)
			}
			m.observe(at, rows)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) { now = append(now, modelRow{text: text.Draw(rt, "text")}) },
			"read": func(*rapid.T) {
				for i := range now {
					now[i].read = true
				}
			},
			"read one": func(rt *rapid.T) {
				if len(now) > 0 {
					now[rapid.IntRange(0, len(now)-1).Draw(rt, "row")].read = true
				}
			},
			"take": func(*rapid.T) { now = nil },
			"clobber": func(rt *rapid.T) {
				if len(now) > 0 {
					i := rapid.IntRange(0, len(now)-1).Draw(rt, "row")
					now = append(now[:i:i], now[i+1:]...)
				}
			},
			"shuffle": func(rt *rapid.T) { now = rapid.Permutation(now).Draw(rt, "rows") },
			"observe": func(*rapid.T) {
				clock++
				give(clock, now)
			},
			"look": func(*rapid.T) {
				clock++
				old = append(old, taken{clock, slices.Clone(now)})
			},
			"observe late": func(rt *rapid.T) {
				if len(old) > 0 {
					i := rapid.IntRange(0, len(old)-1).Draw(rt, "look")
					give(old[i].at, old[i].rows)
				}
			},
			"another process": func(*rapid.T) {
				clear(j.views) // this process had the views, another one has none
				j.held = 0
				m.newest = m.written
			},
			"": func(rt *rapid.T) {
				now = slices.Clone(now)
				var got []known
				for msg, err := range j.Messages.All(t.Context(), Query{Inbox: name}) {
					if err != nil {
						rt.Fatal(err)
					}
					got = append(got, known{msg.Text, msg.Occurrence, !msg.ReadAt.IsZero(), !msg.GoneAt.IsZero()})
				}
				if diff := cmp.Diff(m.list, got); diff != "" {
					rt.Fatalf("journal (-model +got):\n%s", diff)
				}
			},
		})
	})
}
