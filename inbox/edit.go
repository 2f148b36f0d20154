package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/rawjson"
)

// Edit changes the inbox. It reads the file, calls edit, replaces the file under Claude Code's lock, and
// reads it back before it releases the lock. All changes of an inbox use Edit. An edit that changes nothing
// takes no lock.
//
// edit is called before the lock is taken. It is called again under the lock, with a new draft, if the file
// has changed since, or if a program that ignores the lock overwrites the result. So it must be quick, use no
// database, and change only its draft. If it fails, nothing is written.
//
// An edit that adds a row creates the file if it is missing, and the inboxes directory of an existing team.
// The errors are [teams.ErrTeamGone], [*CorruptError] and those of [lockedfile.Locker.Transform].
func (b *Inbox) Edit(ctx context.Context, edit func(*Draft) error) error {
	return b.edit(ctx, edit, lockedfile.File{})
}

// edit is Edit with the hooks of file.
func (b *Inbox) edit(ctx context.Context, edit func(*Draft) error, file lockedfile.File) error {
	dir, err := b.dir(true)
	if err != nil {
		return err
	}
	defer dir.Close()
	file.Dir, file.Name, file.Guard = dir, b.file(), b.team.Exists
	err = b.locker.Transform(ctx, file, func(old []byte) ([]byte, error) {
		data := old
		if len(data) == 0 {
			data = []byte("[]")
		}
		d := &Draft{data: data}
		if err := b.parse(d); err != nil {
			return nil, err
		}
		if err := edit(d); err != nil {
			return nil, err
		}
		return d.content()
	})
	if errors.Is(err, lockedfile.ErrGone) {
		err = fmt.Errorf("%w: %w", teams.ErrTeamGone, err)
	}
	if errors.Is(err, teams.ErrTeamGone) {
		// Our lock may have prevented the complete deletion of the team.
		err = errors.Join(err, b.team.Sweep())
	}
	if corrupt, ok := errors.AsType[*CorruptError](err); ok {
		corrupt.Path = b.Path()
	}
	return err
}

// Draft is an inbox during an edit. It is valid until edit returns.
type Draft struct {
	data  []byte
	spans []rawjson.Span
	known []*Row // the rows from the cache; nil without a cache

	changed map[int][]byte // new bytes of an element; nil for a removed one
	added   [][]byte
}

// All returns the rows of the inbox before the edit, each with the number of its element in the file. It
// skips elements that are not objects.
func (d *Draft) All() iter.Seq2[int, Row] {
	return func(yield func(int, Row) bool) {
		for i, s := range d.spans {
			var row Row
			var ok bool
			if d.known == nil {
				row, ok = parseRow(s.Of(d.data))
			} else if ok = d.known[i] != nil; ok {
				row = *d.known[i]
				row.Raw = s.Of(d.data)
			}
			if ok && !yield(i, row) {
				return
			}
		}
	}
}

// parse finds the elements of a draft.
func (b *Inbox) parse(d *Draft) (err error) {
	if b.cache != nil {
		d.spans, d.known, err = b.cache.parse(d.data)
		return err
	}
	d.spans, err = elements(d.data, nil)
	return err
}

// Find returns the first row with an id, and its number.
func (d *Draft) Find(id string) (i int, row Row, ok bool) {
	uid := msgID(id)
	may := mayHold(id, uid)
	if !may(d.data) { // one check of the whole file is faster than one of each row
		return 0, Row{}, false
	}
	for i, s := range d.spans {
		raw := s.Of(d.data)
		if !may(raw) {
			continue
		}
		if row, ok := parseRow(raw); ok && (row.ID() == id || row.MsgID == uid) {
			return i, row, true
		}
	}
	return 0, Row{}, false
}

// mayHold returns a function that reports, without parsing, whether a row in a JSON text may have this id or
// msg_id. An id of letters, digits and - appears literally or with \u escapes. An id that is derived from a
// row's content does not appear.
func mayHold(id, uid string) func(raw []byte) bool {
	if strings.HasPrefix(id, derivedPrefix) || strings.ContainsFunc(id, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-')
	}) {
		return func([]byte) bool { return true }
	}
	return func(raw []byte) bool {
		return bytes.Contains(raw, []byte(id)) || id != uid && bytes.Contains(raw, []byte(uid)) || bytes.Contains(raw, []byte(`\u`))
	}
}

// Remove removes row i, if it exists.
func (d *Draft) Remove(i int) {
	if i >= 0 && i < len(d.spans) {
		d.change(i, nil)
	}
}

// Set sets the field key of row i to v, encoded as JSON. An existing field keeps its place; of repeated
// fields, Set changes the last; a new field becomes the last one. All other bytes of the row stay. If there
// is no row i, Set fails.
func (d *Draft) Set(i int, key string, v any) error {
	raw, ok := d.changed[i]
	if i < 0 || i >= len(d.spans) || ok && raw == nil {
		return fmt.Errorf("inbox: set %s: there is no row %d", key, i)
	}
	if !ok {
		raw = d.spans[i].Of(d.data)
	}
	value, err := rawjson.Encode(v)
	if err != nil {
		return fmt.Errorf("inbox: set %s: %w", key, err)
	}
	fields, err := rawjson.Fields(raw)
	if err != nil {
		return fmt.Errorf("inbox: set %s: %w", key, err)
	}
	for _, f := range slices.Backward(fields) {
		if f.Name == key {
			d.change(i, slices.Concat(raw[:f.Value.Start], value, raw[f.Value.End:]))
			return nil
		}
	}
	name, err := rawjson.Encode(key)
	if err != nil {
		return fmt.Errorf("inbox: set %s: %w", key, err)
	}
	if len(fields) == 0 {
		d.change(i, slices.Concat([]byte("{"), name, []byte(":"), value, []byte("}")))
		return nil
	}
	// The new field gets the white space of the field before it.
	last := fields[len(fields)-1]
	lead := raw[bytes.LastIndexAny(raw[:last.Key.Start], ",{")+1 : last.Key.Start]
	colon := raw[last.Key.End:last.Value.Start]
	d.change(i, slices.Concat(raw[:last.Value.End], []byte(","), lead, name, colon, value, raw[last.Value.End:]))
	return nil
}

func (d *Draft) change(i int, raw []byte) {
	if d.changed == nil {
		d.changed = map[int][]byte{}
	}
	d.changed[i] = raw
}

func (d *Draft) append(row []byte) { d.added = append(d.added, row) }

// content returns the changed file; nil if there are no changes.
func (d *Draft) content() ([]byte, error) {
	if d.changed == nil && d.added == nil {
		return nil, nil
	}
	data, spans := d.data, d.spans
	if n := len(spans); n > 0 && len(data)-spans[n-1].End > lockedfile.Spare {
		data = slices.Clip(data) // an append must not overwrite the data that was read
	}
	if d.changed != nil {
		data, spans = d.rewritten()
	}
	for _, row := range d.added {
		next, err := rawjson.AppendTo(data, spans, row, "")
		if err != nil {
			return nil, err
		}
		data = next
		if len(d.added) > 1 {
			if spans, err = elements(data, nil); err != nil {
				return nil, err
			}
		}
	}
	return data, nil
}

// rewritten returns the file with the changed elements, and without the removed ones.
func (d *Draft) rewritten() ([]byte, []rawjson.Span) {
	out := make([]byte, 0, len(d.data)+1024)
	var spans []rawjson.Span
	for i, s := range d.spans {
		raw, changed := d.changed[i]
		if changed && raw == nil {
			continue
		}
		if !changed {
			raw = s.Of(d.data)
		}
		if len(spans) == 0 {
			out = append(out, d.data[:d.spans[0].Start]...)
		} else {
			out = append(out, d.data[d.spans[i-1].End:s.Start]...)
		}
		spans = append(spans, rawjson.Span{Start: len(out), End: len(out) + len(raw)})
		out = append(out, raw...)
	}
	if len(spans) == 0 {
		// Claude Code writes "[]" when all rows of an inbox were taken.
		return []byte("[]"), nil
	}
	return append(out, d.data[d.spans[len(d.spans)-1].End:]...), spans
}

// state identifies the version of the file. Every write by Claude Code or by us changes it.
func (b *Inbox) state() (string, error) {
	info, err := os.Lstat(b.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return "missing", nil
	}
	if err != nil {
		return "", fmt.Errorf("inbox: look at %s: %w", b.Path(), err)
	}
	return fmt.Sprintf("%d bytes, %d, %s", info.Size(), info.ModTime().UnixNano(), fileID(info)), nil
}

// MarkRead marks the rows with these ids as read, and returns how many it changed. Agents do not take marked
// rows, and current agents remove them. If there is no inbox, the error is [ErrMissing].
func (b *Inbox) MarkRead(ctx context.Context, ids ...string) (n int, err error) {
	dir, err := b.dir(false)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	if _, err := dir.Lstat(b.file()); errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("inbox %s: %w", b.Path(), ErrMissing)
	}
	err = b.Edit(ctx, func(d *Draft) error {
		n = 0
		for i, row := range d.All() {
			if row.Read || !slices.Contains(ids, row.ID()) {
				continue
			}
			if err := d.Set(i, "read", true); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}
