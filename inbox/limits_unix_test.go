//go:build unix

package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"teambridge/inbox"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// operations are all ways to read an inbox and to change it.
var operations = map[string]func(ctx context.Context, b *inbox.Inbox, m inbox.Memory) error{
	"append": func(ctx context.Context, b *inbox.Inbox, m inbox.Memory) error {
		_, err := b.Append(ctx, numbered("m", 0), inbox.AppendOptions{Memory: m})
		return err
	},
	"mark": func(ctx context.Context, b *inbox.Inbox, _ inbox.Memory) error {
		_, err := b.MarkRead(ctx, "x")
		return err
	},
	"take": func(ctx context.Context, b *inbox.Inbox, _ inbox.Memory) error {
		_, err := b.Take(ctx, func(inbox.Row) bool { return true })
		return err
	},
	"read": func(ctx context.Context, b *inbox.Inbox, _ inbox.Memory) error {
		_, err := b.Read(ctx)
		return err
	},
}

// errCorrupt stands for any CorruptError with the path of the inbox.
var errCorrupt = errors.New("corrupt")

// Whatever is in the place of an inbox, each operation returns a clear error, leaves it unchanged, and leaves no
// other file.
func TestWhatIsNoInbox(t *testing.T) {
	t.Parallel()
	content := func(s string) func(p *place) error {
		return func(p *place) error { return os.WriteFile(p.path(), []byte(s), 0o644) }
	}
	all := func(err error) map[string]error {
		return map[string]error{"append": err, "mark": err, "take": err, "read": err}
	}
	for name, tc := range map[string]struct {
		make func(p *place) error
		want map[string]error // nil: success; operations that are missing here are not tried
	}{
		"garbage":         {content("hello"), all(errCorrupt)},
		"cut":             {content(foreign[:len(foreign)-2]), all(errCorrupt)},
		"object":          {content("{}"), all(errCorrupt)},
		"null":            {content("null"), all(errCorrupt)},
		"blank":           {content(" \n"), all(errCorrupt)},
		"byte order mark": {content("\ufeff[]"), all(errCorrupt)},
		"zeros":           {content(string(make([]byte, 4096))), all(errCorrupt)},
		"trailing data":   {content("[] []"), all(errCorrupt)},
		"too deep":        {content("[" + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "]"), all(errCorrupt)},
		"empty": {content(""), map[string]error{
			"mark": nil, "take": nil, "read": inbox.ErrEmpty}},
		"missing": {func(*place) error { return nil }, map[string]error{
			"mark": inbox.ErrMissing, "take": nil, "read": inbox.ErrMissing}},
		"no inboxes": {func(p *place) error { return os.Remove(filepath.Dir(p.path())) }, map[string]error{
			"mark": inbox.ErrMissing, "read": inbox.ErrMissing}},
		"directory":  {func(p *place) error { return os.Mkdir(p.path(), 0o755) }, all(lockedfile.ErrNotRegular)},
		"named pipe": {func(p *place) error { return syscall.Mkfifo(p.path(), 0o644) }, all(lockedfile.ErrNotRegular)},
		"33 MiB": {func(p *place) error {
			return errors.Join(content("[]")(p), os.Truncate(p.path(), 33<<20))
		}, all(lockedfile.ErrTooLarge)},
		"link": {func(p *place) error {
			out := filepath.Join(filepath.Dir(p.root), "outside.json")
			return errors.Join(os.WriteFile(out, []byte("[]"), 0o644), os.Symlink(out, p.path()))
		}, all(lockedfile.ErrNotRegular)},
		"link within": {func(p *place) error {
			return errors.Join(os.WriteFile(filepath.Dir(p.path())+"/bob.json", []byte("[]"), 0o644), os.Symlink("bob.json", p.path()))
		}, all(lockedfile.ErrNotRegular)},
		"link to nothing": {func(p *place) error { return os.Symlink("nothing.json", p.path()) }, all(lockedfile.ErrNotRegular)},
		"inboxes is a link": {func(p *place) error {
			out := filepath.Join(filepath.Dir(p.root), "outside")
			return errors.Join(os.Rename(filepath.Dir(p.path()), out), os.WriteFile(out+"/alice.json", []byte("[]"), 0o644), os.Symlink(out, filepath.Dir(p.path())))
		}, all(teams.ErrNotDir)},
		"inboxes is a file": {func(p *place) error {
			return errors.Join(os.Remove(filepath.Dir(p.path())), os.WriteFile(filepath.Dir(p.path()), nil, 0o644))
		}, all(teams.ErrNotDir)},
		"no config": {func(p *place) error {
			return errors.Join(content(foreign)(p), os.Remove(filepath.Join(p.dir, "config.json")))
		}, map[string]error{"append": teams.ErrTeamGone, "mark": teams.ErrTeamGone, "take": teams.ErrTeamGone}},
		"foreign lock": {func(p *place) error {
			return errors.Join(content(foreign)(p), os.WriteFile(p.lock(), nil, 0o644))
		}, map[string]error{"append": lockedfile.ErrForeignLock, "mark": nil, "take": lockedfile.ErrForeignLock, "read": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for op, want := range tc.want {
				p := newPlace(t)
				must(t, tc.make(p))
				before := picture(t, filepath.Dir(p.root))
				err := operations[op](t.Context(), p.open(lockedfile.Options{}), p.memory())
				if c, ok := errors.AsType[*inbox.CorruptError](err); want == errCorrupt {
					if !ok || c.Path != p.path() {
						t.Errorf("%s: got %v, want a CorruptError with the path", op, err)
					}
				} else if !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", op, err, want)
				}
				if after := picture(t, filepath.Dir(p.root)); after != before {
					t.Errorf("%s changed something; before:\n%s\nafter:\n%s", op, before, after)
				}
			}
		})
	}
}

// picture describes everything below dir except the sender's own files.
func picture(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.Join(dir, "state") || path == filepath.Join(dir, "notes") {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s %s", info.Mode(), path)
		if info.Mode().IsRegular() {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			start := make([]byte, 64)
			n, err := io.ReadFull(f, start)
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			fmt.Fprintf(&all, " %d %d %d %x", st.Ino, info.Size(), info.ModTime().UnixNano(), start[:n])
		}
		fmt.Fprintln(&all)
		return nil
	})
	must(t, err)
	return all.String()
}

// A team directory that is a link out of the Claude directory is no team.
func TestTeamIsALink(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	out := filepath.Join(filepath.Dir(p.root), "outside")
	must(t, errors.Join(os.Rename(p.dir, out), os.Symlink(out, p.dir)))
	root, err := teams.Open(p.root)
	must(t, err)
	defer root.Close()
	if _, err := root.Team("demo"); !errors.Is(err, teams.ErrNotDir) {
		t.Errorf("got %v, want ErrNotDir", err)
	}
}

// A team directory that is replaced by a link after it was opened is not followed.
func TestTeamBecomesALink(t *testing.T) {
	t.Parallel()
	for _, step := range []lockedfile.Step{"", lockedfile.StepLock, lockedfile.StepFence} {
		p := newPlace(t)
		p.write([]byte("[]"))
		out := filepath.Join(filepath.Dir(p.root), "outside")
		swap := func() {
			if err := errors.Join(os.Rename(p.dir, p.dir+".old"), os.MkdirAll(out+"/inboxes", 0o755),
				os.WriteFile(out+"/config.json", []byte(configJSON), 0o644), os.Symlink(out, p.dir)); err != nil {
				t.Error(err)
			}
		}
		b := p.open(lockedfile.Options{Before: func(s lockedfile.Step) {
			if s == step {
				swap()
			}
		}})
		if step == "" {
			swap()
		}
		if _, err := b.Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()}); !errors.Is(err, teams.ErrTeamGone) {
			t.Errorf("before step %q: got %v, want ErrTeamGone", step, err)
		}
		if got := tree(out); strings.Contains(got, "alice") {
			t.Errorf("before step %q: written outside: %s", step, got)
		}
		if got, err := os.ReadFile(p.dir + ".old/inboxes/alice.json"); err != nil || string(got) != "[]" {
			t.Errorf("before step %q: the file holds %q, %v", step, got, err)
		}
	}
}

// An append that would make the file too large is refused, and the memory forgets its intent.
func TestGrowsTooLarge(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	full := bytes.Repeat([]byte(" "), inbox.MaxSize-50)
	copy(full, `[{"from":"bob","text":"x","timestamp":"y"}`)
	full[len(full)-1] = ']'
	p.write(full)
	before := picture(t, p.root) // picture does not read the whole file
	_, err := p.open(lockedfile.Options{}).Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()})
	if !errors.Is(err, lockedfile.ErrTooLarge) || picture(t, p.root) != before {
		t.Errorf("got %v, want ErrTooLarge and the file as it was", err)
	}
	p.wantNames("alice.json")
	p.write([]byte("[]"))
	p.resend(false, false, nil)
}

// If any one of the needed permissions is missing, nothing changes. The sender runs as another user, since root may
// do everything.
func TestNoPermission(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process as another user")
	}
	const nobody = 65534
	for name, tc := range map[string]struct {
		file, inboxes, team, state fs.FileMode
		want                       string // class; "" for success
	}{
		"all allowed, but the owner would change": {0o666, 0o777, 0o755, 0o777, "permission"},
		"file cannot be read":                     {0o600, 0o777, 0o755, 0o777, "permission"},
		"directory cannot be written":             {0o666, 0o755, 0o755, 0o777, "permission"},
		"directory cannot be entered":             {0o666, 0o700, 0o755, 0o777, "permission"},
		"state cannot be written":                 {0o666, 0o777, 0o755, 0o500, "permission"},
		"no file yet":                             {0, 0o777, 0o755, 0o777, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			base := filepath.Dir(p.root)
			for _, dir := range []string{p.state, p.notes} {
				must(t, os.Mkdir(dir, 0o755))
			}
			if tc.file != 0 {
				p.write([]byte(foreign))
				must(t, os.Chmod(p.path(), tc.file))
			}
			program := filepath.Join(base, "sender")
			if err := errors.Join(os.Chmod(filepath.Dir(p.path()), tc.inboxes), os.Chmod(p.dir, tc.team), os.Chmod(p.state, tc.state),
				os.Chmod(p.notes, 0o777), os.Chmod(filepath.Dir(base), 0o755), copyFile(program, os.Args[0])); err != nil {
				t.Fatal(err)
			}
			before := picture(t, p.root)
			cmd := p.sender(job{Prefix: "m", Count: 1})
			cmd.Path, cmd.Dir = program, "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if tc.want == "" {
				if string(out) != "sent m-0\n" {
					t.Errorf("got %q, want success", out)
				}
				return
			}
			if !strings.HasPrefix(string(out), "failed m-0: "+tc.want+": ") || !strings.Contains(string(out), base) {
				t.Errorf("got %q, want %s with the path", out, tc.want)
			}
			if after := picture(t, p.root); after != before {
				t.Errorf("something changed; before:\n%s\nafter:\n%s", before, after)
			}
			if left, err := os.ReadDir(p.notes); err != nil || len(left) != 0 {
				t.Errorf("the memory still holds %v, %v", left, err)
			}
		})
	}
}

// copyFile copies a program. No process is started meanwhile: a new process keeps a copy of each open file until it
// executes its program, and a program that is open for writing cannot be executed.
func copyFile(to, from string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
