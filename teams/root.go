package teams

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Find returns the path of the Claude directory, which need not exist: override if it is not empty, else
// $CLAUDE_CONFIG_DIR, else .claude in the home directory, as in Claude Code. lookup is os.LookupEnv or a
// substitute; an empty variable counts as unset.
func Find(override string, lookup func(string) (string, bool)) (string, error) {
	if override != "" {
		return override, nil
	}
	if dir, ok := lookup("CLAUDE_CONFIG_DIR"); ok && dir != "" {
		return dir, nil
	}
	if home, ok := lookup(homeVariable); ok && home != "" {
		return filepath.Join(home, ".claude"), nil
	}
	return "", fmt.Errorf("teams: find the Claude directory: neither CLAUDE_CONFIG_DIR nor %s is set", homeVariable)
}

// Root is a Claude directory. It is safe for concurrent use. Close it after its teams.
type Root struct {
	path string
	mu   sync.Mutex // guards dir until dir is not nil: see exists
	dir  *os.Root

	hidden func() // for tests of kills: called when a team is renamed but not yet removed
}

// Open opens the Claude directory at dir, which may be a symbolic link. If the directory does not exist, the
// error is a [*NoRootError].
func Open(dir string) (*Root, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, &NoRootError{Dir: dir, Err: err}
	}
	path, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, &NoRootError{Dir: abs, Err: reason(err)}
	}
	r := &Root{path: path}
	if err := r.exists(); err != nil {
		err.Dir = abs
		return nil, err
	}
	return r, nil
}

// OpenExpected is Open for a directory that need not exist yet. Until it exists, it has no teams and no
// sessions. Its parent directory must exist.
func OpenExpected(dir string) (*Root, error) {
	r, err := Open(dir)
	missing, ok := errors.AsType[*NoRootError](err)
	if !ok || !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	parent, perr := filepath.EvalSymlinks(filepath.Dir(missing.Dir))
	if perr != nil {
		return nil, err
	}
	return &Root{path: filepath.Join(parent, filepath.Base(missing.Dir))}, nil
}

// exists opens the directory if it is not open yet. Once it is open, the error is always nil.
func (r *Root) exists() *NoRootError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir != nil {
		return nil
	}
	// Check before opening: to open a named pipe would block.
	fi, err := os.Stat(r.path)
	if err == nil && !fi.IsDir() {
		err = errors.New("not a directory")
	}
	if err == nil {
		r.dir, err = os.OpenRoot(r.path)
	}
	if err != nil {
		return &NoRootError{Dir: r.path, Err: reason(err)}
	}
	return nil
}

// Path returns the real path of the directory.
func (r *Root) Path() string { return r.path }

// Close releases the directory.
func (r *Root) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir == nil {
		return nil
	}
	return r.dir.Close()
}

// Listing is a team as found under teams/.
type Listing struct {
	Name string
	// Orphan means that there is no config.json, for example after a crash or an incomplete deletion.
	Orphan bool
	// Err is why the team cannot be examined, such as [ErrNotDir] or fs.ErrPermission; nil if it can.
	Err error
}

// Teams lists the teams, sorted by name. It skips entries that are not directories, and names that
// [CheckName] refuses. If the Claude directory has no teams directory, the list is empty.
func (r *Root) Teams() ([]Listing, error) {
	entries, err := r.list("teams")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("teams: list %s: %w", filepath.Join(r.path, "teams"), reason(err))
	}
	var found []Listing
	for _, e := range entries {
		if badName(e.Name()) != "" || !e.IsDir() && e.Type()&(fs.ModeSymlink|fs.ModeIrregular) == 0 {
			continue
		}
		l := Listing{Name: e.Name()}
		switch _, err := r.dir.Lstat("teams/" + e.Name() + "/" + configFile); {
		case !e.IsDir():
			l.Err = fmt.Errorf("teams: %s: %w", filepath.Join(r.path, "teams", e.Name()), ErrNotDir)
		case errors.Is(err, fs.ErrNotExist):
			l.Orphan = true
		case err != nil:
			l.Err = fmt.Errorf("teams: %s: %w", filepath.Join(r.path, "teams", e.Name(), configFile), reason(err))
		}
		found = append(found, l)
	}
	return found, nil
}

// Team opens the team called name, even if it has no config.json. On a file system that ignores case, the
// team has the name that its directory has. The errors are [ErrBadName], a [*NotFoundError] with the existing
// teams, and [ErrNotDir].
func (r *Root) Team(name string) (*Team, error) {
	if err := CheckName("team", name); err != nil {
		return nil, err
	}
	dir, err := r.open("teams", name)
	if err == nil {
		name = spelling(r.dir, "teams", name)
	}
	path := filepath.Join(r.path, "teams", name)
	if errors.Is(err, fs.ErrNotExist) {
		nf := &NotFoundError{Kind: "team", Query: name}
		if all, err := r.Teams(); err == nil {
			var names []string
			for _, l := range all {
				names = append(names, l.Name)
			}
			nf.Nearest = nearest(name, names)
		}
		return nil, nf
	}
	if err != nil {
		return nil, fmt.Errorf("teams: open %s: %w", path, reason(err))
	}
	return &Team{root: r, name: name, path: path, dir: dir}, nil
}

// open opens the directory name in the directory parent.
func (r *Root) open(parent, name string) (*os.Root, error) {
	if err := r.exists(); err != nil {
		return nil, err
	}
	// The parent may be a link within the Claude directory, but not one that leads out of it.
	all, err := r.dir.OpenRoot(parent)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	return step(all, name)
}

// step opens the directory name in parent. It opens no symbolic link, and no named pipe, which would block.
func step(parent *os.Root, name string) (*os.Root, error) {
	for range 3 {
		seen, err := parent.Lstat(name)
		if err != nil {
			return nil, err
		}
		if !seen.IsDir() {
			return nil, ErrNotDir
		}
		// If the directory was deleted and made again in between, try again.
		if dir, err := enter(parent, name, seen); dir != nil || err != nil {
			return dir, err
		}
	}
	return nil, ErrNotDir
}

// enter opens the directory name in parent if it is still the directory seen. If it is another one, enter
// returns nil. os.Root follows links within its tree, so enter compares the opened directory with seen.
func enter(parent *os.Root, name string, seen fs.FileInfo) (*os.Root, error) {
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	got, err := dir.Stat(".")
	if err == nil && os.SameFile(seen, got) {
		return dir, nil
	}
	dir.Close()
	return nil, err
}

// TaskLists returns the names of the directories below tasks, sorted. It skips other entries, and names that
// [CheckName] refuses.
func (r *Root) TaskLists() ([]string, error) {
	entries, err := r.list("tasks")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("teams: list %s: %w", filepath.Join(r.path, "tasks"), reason(err))
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && badName(e.Name()) == "" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// TaskList opens the directory called name below tasks; close it. The errors are [ErrBadName],
// fs.ErrNotExist, and [ErrNotDir].
func (r *Root) TaskList(name string) (*os.Root, error) {
	if err := CheckName("list of tasks", name); err != nil {
		return nil, err
	}
	dir, err := r.open("tasks", name)
	if err != nil {
		return nil, fmt.Errorf("teams: open %s: %w", filepath.Join(r.path, "tasks", name), reason(err))
	}
	return dir, nil
}

// list reads the directory name, sorted by name.
func (r *Root) list(name string) ([]fs.DirEntry, error) {
	if err := r.exists(); err != nil {
		return nil, err
	}
	return list(r.dir, name)
}

// list reads the directory name in dir, sorted by name.
func list(dir names, name string) ([]fs.DirEntry, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// reason removes the path from err, because that path is relative to a directory handle. The caller adds the
// full path.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}
