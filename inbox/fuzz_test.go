package inbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/teams/rawjson"
)

func seeds(f *testing.F, add func(file []byte)) {
	for _, l := range layouts {
		add(l.file([]string{l.row(odd(0)), "null", l.row(odd(1)), l.row(odd(2)), "3", `"x"`, "[ ]", l.row(odd(3)), l.row(odd(4)), "{}"}))
		add(l.file(nil))
	}
	for _, s := range []string{"", "[]", "[ ]", "{}", "null", "[1,]", "[,1]", "[]x", "\ufeff[]", "[\xff]", `["\ud800"]`, "[{\"\xff\":1}]", "[[[", foreign} {
		add([]byte(s))
	}
}

// Parse never panics. It accepts the same files as Edit, and every edit that changes nothing gives the same bytes
// back.
func FuzzParse(f *testing.F) {
	seeds(f, func(file []byte) { f.Add(file) })
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := inbox.Parse(data)
		if err != nil && rows != nil {
			t.Errorf("%d rows and %v", len(rows), err)
		}
		d, derr := inbox.NewDraft(data)
		if (err == nil) != (derr == nil) {
			t.Fatalf("Parse: %v, Edit: %v", err, derr)
		}
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("taken, but not JSON: %q", data)
		}
		n := 0
		for i, row := range d.All() {
			if !bytes.Equal(row.Raw, rows[n].Raw) || !bytes.Contains(data, row.Raw) {
				t.Errorf("row %d: %q, %q", i, row.Raw, rows[n].Raw)
			}
			if _, found, ok := d.Find(row.ID()); !ok || found.ID() != row.ID() {
				// A row can be found by the id of another row, if that id hashes to the row's msg_id.
				t.Errorf("row %d is not found by its id %q", i, row.ID())
			}
			_, _ = row.Time()
			_, _, _ = row.Kind(), row.Digest(), row.Extra
			n++
		}
		if n != len(rows) {
			t.Errorf("%d rows in a draft, %d by Parse", n, len(rows))
		}
		if content, err := d.Content(); content != nil || err != nil {
			t.Errorf("unchanged, but content %q, %v", content, err)
		}
		// Setting a field to its own value changes nothing.
		for i, row := range d.All() {
			fields, err := rawjson.Fields(row.Raw)
			must(t, err)
			for _, field := range fields {
				if last := lastValue(row.Raw, fields, field.Name); string(last) == "true" || string(last) == "false" {
					if err := d.Set(i, field.Name, string(last) == "true"); err != nil {
						t.Error(err)
					}
				}
			}
		}
		if content, err := d.Content(); err != nil || content != nil && !bytes.Equal(content, data) {
			t.Errorf("set to what it was: %v\n%q\n%q", err, content, data)
		}
	})
}

func lastValue(raw []byte, fields []rawjson.Field, name string) (last []byte) {
	for _, f := range fields {
		if f.Name == name {
			last = f.Value.Of(raw)
		}
	}
	return last
}

// Appending keeps all bytes before and after the new row, and removing the row restores the file.
func FuzzAppend(f *testing.F) {
	seeds(f, func(file []byte) { f.Add(file, "text") })
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		d, err := inbox.NewDraft(data)
		if err != nil {
			return
		}
		row, err := json.Marshal(map[string]string{"text": text})
		must(t, err)
		d.Append(row)
		content, err := d.Content()
		must(t, err)
		was, err := rawjson.Elements(data)
		must(t, err)
		is, err := rawjson.Elements(content)
		if err != nil || len(is) != len(was)+1 {
			t.Fatalf("%d elements, %v; had %d: %q", len(is), err, len(was), content)
		}
		for i := range was {
			if !bytes.Equal(was[i].Of(data), is[i].Of(content)) {
				t.Errorf("element %d is %q, was %q", i, is[i].Of(content), was[i].Of(data))
			}
		}
		var got, want any
		must(t, json.Unmarshal(is[len(was)].Of(content), &got))
		must(t, json.Unmarshal(row, &want))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if len(was) == 0 {
			return
		}
		last := was[len(was)-1].End
		if !bytes.Equal(content[:last], data[:last]) || !bytes.HasSuffix(content, data[last:]) {
			t.Errorf("%q became %q", data, content)
		}
		again, err := inbox.NewDraft(content)
		must(t, err)
		again.Remove(len(was))
		if back, err := again.Content(); err != nil || !bytes.Equal(back, data) {
			t.Errorf("removed again: %v\n%q\n%q", err, back, data)
		}
	})
}

// Any sequence of changes to a draft has the same effect as on the decoded values, and rows that were not changed
// keep their bytes. Each pair of bytes of ops is one change.
func FuzzDraft(f *testing.F) {
	seeds(f, func(file []byte) {
		f.Add(file, []byte{0, 0, 1, 1, 2, 2})
		f.Add(file, []byte{2, 0, 2, 0, 0, 9, 5, 9, 9, 8, 0, 4, 7, 1})
	})
	f.Fuzz(func(t *testing.T, data []byte, ops []byte) {
		d, err := inbox.NewDraft(data)
		if err != nil || len(ops) > 200 {
			return
		}
		spans, err := rawjson.Elements(data)
		must(t, err)
		model := make([]any, len(spans)) // decoded; removed{} for a removed row
		touched := make([]bool, len(spans))
		for i, s := range spans {
			model[i] = decode(t, s.Of(data))
		}
		var added []any
		for len(ops) >= 2 {
			op, at := ops[0], int(ops[1])
			ops = ops[2:]
			if len(spans) > 0 {
				at %= len(spans) + 1 // also one past the end
			}
			switch op % 3 {
			case 0:
				key := []string{"read", "new", "from", "a \" b", "é", ""}[int(op/3)%6]
				value := []any{true, "x\n<&>", json.Number("1"), nil, []any{json.Number("1")}}[int(op/18)%5]
				var row map[string]any
				if at < len(model) {
					row, _ = model[at].(map[string]any)
				}
				err := d.Set(at, key, value)
				if (err == nil) != (row != nil) {
					t.Fatalf("set %q in element %d, %v: %v", key, at, row, err)
				}
				if row != nil {
					row[key] = value
					touched[at] = true
				}
			case 1:
				d.Remove(at)
				if at < len(model) {
					model[at] = removed{}
				}
			case 2:
				row := fmt.Sprintf(`{"text":"added","n":[%d,{}]}`, op)
				d.Append([]byte(row))
				added = append(added, decode(t, []byte(row)))
			}
		}
		content, err := d.Content()
		must(t, err)
		if content == nil {
			content = data
		}
		is, err := rawjson.Elements(content)
		if err != nil {
			t.Fatalf("became %q: %v", content, err)
		}
		n := 0
		for i, want := range model {
			if want == (any)(removed{}) {
				continue
			}
			if n >= len(is) {
				t.Fatalf("element %d is gone", i)
			}
			raw := is[n].Of(content)
			if diff := cmp.Diff(want, decode(t, raw)); diff != "" {
				t.Errorf("element %d (-want +got):\n%s", i, diff)
			}
			if !touched[i] && !bytes.Equal(raw, spans[i].Of(data)) {
				t.Errorf("element %d is %q, was %q", i, raw, spans[i].Of(data))
			}
			n++
		}
		for i, want := range added {
			if n >= len(is) {
				t.Fatalf("added element %d is not there", i)
			}
			if diff := cmp.Diff(want, decode(t, is[n].Of(content))); diff != "" {
				t.Errorf("added element %d (-want +got):\n%s", i, diff)
			}
			n++
		}
		if n != len(is) {
			t.Errorf("%d elements, want %d", len(is), n)
		}
		// The layout of the end stays, unless all rows that were there have been removed.
		if slices.ContainsFunc(model, func(v any) bool { return v != (any)(removed{}) }) {
			if tail := data[spans[len(spans)-1].End:]; !bytes.HasSuffix(content, tail) {
				t.Errorf("the end %q became %q", tail, content)
			}
		}
	})
}

type removed struct{}

// decode returns the value of raw, and keeps the spelling of numbers.
func decode(t *testing.T, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decode %q: %v", raw, err)
	}
	return v
}
