package inbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"teambridge/inbox"
	"teambridge/teams/errtest"
	"teambridge/teams/lockedfile"
)

// layout describes the layout of a file, around its rows and in them.
type layout struct {
	head, between, tail string
	row                 func(compact string) string
}

var must = errtest.Must

func indent(eol, pad, unit string) func(string) string {
	return func(compact string) string {
		var buf bytes.Buffer
		if err := json.Indent(&buf, []byte(compact), pad, unit); err != nil {
			panic(err)
		}
		return strings.ReplaceAll(buf.String(), "\n", eol)
	}
}

func same(s string) string { return s }

var layouts = map[string]layout{
	"two spaces":  {"[\n  ", ",\n  ", "\n]", indent("\n", "  ", "  ")},
	"CRLF":        {"[\r\n  ", ",\r\n  ", "\r\n]\r\n", indent("\r\n", "  ", "  ")},
	"tab":         {"[\n\t", ",\n\t", "\n]\n", indent("\n", "\t", "\t")},
	"minified":    {"[", ",", "]", same},
	"one a line":  {"[\n", ",\n", "\n]\n", same},
	"blank lines": {" \n[\n\n    ", " ,\n\n    ", "\n\n]\n \n", indent("\n", "    ", "    ")},
}

// odd returns row i of a file that is hard to keep. Each row has an id, and a "read" that is false.
func odd(i int) string {
	kinds := []string{
		`{"from":"bob","text":"plain %[1]d","timestamp":"2026-11-20T12:00:00.000Z","read":false,"messageId":"row-%[1]d"}`,
		`{"from":"bob","text":"<&> \u003c \/ é \u00e9 %[1]d","timestamp":"yesterday","n":1.0,"e":1e400,"z":-0,"big":12345678901234567890,"read":false,"messageId":"row-%[1]d"}`,
		`{"k":1,"from":"first","k":2,"from":"bob","text":"lone \ud800 and \udc00 %[1]d","timestamp":7,"read":true,"read":false,"messageId":"row-%[1]d"}`,
		`{"messageId":"row-%[1]d","read":false,"unknown":{"deep":[[],{},[{"a":null}],"]}"],"":""},"text":"{\"type\":\"idle_notification\",\"n\":%[1]d}","from":"bob"}`,
		`{"read":false,"from":"\u0062ob","te\u0078t":"escaped key %[1]d","0":0.10,"9":1E+2,"color":null,"messageId":"row-%[1]d","msg_id":""}`,
	}
	return fmt.Sprintf(kinds[i%len(kinds)], i)
}

func (l layout) file(rows []string) []byte {
	return []byte(l.head + strings.Join(rows, l.between) + l.tail)
}

// In a file of 2,000 rows in any layout, an append, a mark and a take change only the bytes that they must change.
func TestOtherBytesStay(t *testing.T) {
	t.Parallel()
	const n = 2000
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			b := p.open(lockedfile.Options{})
			var rows []string
			for i := range n {
				rows = append(rows, l.row(odd(i)))
			}
			p.write(l.file(rows))

			if _, err := b.Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()}); err != nil {
				t.Fatal(err)
			}
			before, ok := bytes.CutSuffix(p.content(), []byte(l.tail))
			prefix := strings.TrimSuffix(string(l.file(rows)), l.tail)
			added, ok2 := strings.CutPrefix(string(before), prefix+",")
			if !ok || !ok2 {
				t.Fatalf("append changed what stood around its row, which ends in %q", before[max(0, len(before)-400):])
			}
			var got struct{ From, Text, MessageID string }
			if err := json.Unmarshal([]byte(added), &got); err != nil || got.Text != "m-0" || got.From != "bob" || got.MessageID != "m-0" {
				t.Errorf("appended %s: %v", added, err)
			}
			if want := strings.Contains(l.head, "\n"); strings.Contains(added, "\n") != want {
				t.Errorf("appended %q; in lines: want %v", added, want)
			}

			// The file is what it was before, byte for byte.
			if taken, err := b.Take(t.Context(), func(r inbox.Row) bool { return r.Text == "m-0" }); err != nil || len(taken) != 1 {
				t.Fatalf("took %d rows, %v", len(taken), err)
			}
			equal(t, "take of what was appended", p.content(), l.file(rows))

			var ids []string
			for i := 0; i < n; i += 97 {
				ids = append(ids, fmt.Sprintf("row-%d", i))
				// Where a row has two, the last one counts.
				at := strings.LastIndex(rows[i], "false")
				rows[i] = rows[i][:at] + "true" + rows[i][at+len("false"):]
			}
			if marked, err := b.MarkRead(t.Context(), ids...); err != nil || marked != len(ids) {
				t.Fatalf("marked %d rows, %v; want %d", marked, err, len(ids))
			}
			equal(t, "mark", p.content(), l.file(rows))

			taken, err := b.Take(t.Context(), func(r inbox.Row) bool { return r.Read })
			if err != nil || len(taken) != len(ids) {
				t.Fatalf("took %d rows, %v; want %d", len(taken), err, len(ids))
			}
			for i, row := range taken {
				if want := rows[i*97]; string(row.Raw) != want {
					t.Errorf("took %s, want %s", row.Raw, want)
				}
			}
			rows = slices.DeleteFunc(rows, func(row string) bool {
				return slices.ContainsFunc(taken, func(r inbox.Row) bool { return string(r.Raw) == row })
			})
			equal(t, "take", p.content(), l.file(rows))

			left := len(rows)
			if _, err := b.Take(t.Context(), func(inbox.Row) bool { left--; return left >= 3 }); err != nil {
				t.Fatal(err)
			}
			equal(t, "take of all but three", p.content(), l.file(rows[len(rows)-3:]))
			p.wantNames("alice.json")
		})
	}
}

// equal shows only the first difference: the files are large.
func equal(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Fatalf("after %s: differs at byte %d: got %.200q, want %.200q", what, i, got[max(0, i-50):], want[max(0, i-50):])
}
