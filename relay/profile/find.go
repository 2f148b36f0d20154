package profile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Ref names a profile and where to look for it. The zero Ref names none.
type Ref struct {
	Name string
	Dir  string // the project: the directory that the agent works in
	Root string // the Claude directory
}

// Load reads the profile. The error is a *[NotFoundError] if no profile has that name.
func (r Ref) Load() (*Profile, error) {
	if err := checkName(r.Name); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	dirs, err := Dirs(r.Dir, r.Root)
	if err != nil {
		return nil, err
	}
	var unread []error
	for _, e := range List(dirs) {
		switch {
		case e.Err != nil && e.Name == "" && filepath.Ext(e.Path) != ".md":
			unread = append(unread, &FileError{e.Path, e.Err})
		case e.Name != r.Name && (e.Err == nil || e.Name != "" || strings.TrimSuffix(filepath.Base(e.Path), ".md") != r.Name):
		case e.Err != nil:
			return nil, &FileError{e.Path, e.Err}
		default: // the nearest one; the project precedes the user
			return e.Profile, nil
		}
	}
	return nil, &NotFoundError{Name: r.Name, Dirs: dirs, Err: errors.Join(unread...)}
}

// NotFoundError means that no directory has the profile.
type NotFoundError struct {
	Name string
	Dirs []string // the searched directories
	Err  error    // read errors there; nil if there are none
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("no profile is called %q; looked in %s", e.Name, strings.Join(e.Dirs, ", "))
	if e.Err != nil {
		text += "; " + strings.ReplaceAll(e.Err.Error(), "\n", "; ")
	}
	return text
}

func (e *NotFoundError) Unwrap() error { return e.Err }

// FileError explains why a file cannot be used.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string {
	return fmt.Sprintf("profile: %s cannot be used: %v", e.Path, e.Err)
}
func (e *FileError) Unwrap() error { return e.Err }

// Entry is a file in a directory of profiles.
type Entry struct {
	*Profile        // incomplete if the file cannot be used
	HiddenBy string // the path of the profile of the same name that takes precedence
	Err      error  // why the file cannot be used; nil if it can
}

// List returns the profiles in the directories, in order of precedence.
func List(dirs []string) []Entry {
	var all []Entry
	chosen := map[string]string{}
	for _, dir := range dirs {
		entries := read(dir)
		usable := map[string][]string{} // paths by name
		for _, e := range entries {
			if e.Err == nil {
				usable[e.Name] = append(usable[e.Name], e.Path)
			}
		}
		for i, e := range entries {
			if same := usable[e.Name]; e.Err == nil && len(same) > 1 {
				others := slices.DeleteFunc(slices.Clone(same), func(path string) bool { return path == e.Path })
				entries[i].Err = fmt.Errorf("its name %q is also the name of %s: rename or remove one", e.Name, strings.Join(others, ", "))
			}
		}
		for _, e := range entries {
			if path, ok := chosen[e.Name]; ok {
				e.HiddenBy = path
			}
			all = append(all, e)
		}
		for _, e := range entries {
			if _, ok := chosen[e.Name]; !ok && e.Name != "" {
				chosen[e.Name] = e.Path
			}
		}
	}
	return all
}

// Dirs returns the directories of profiles, in order of precedence: the project's, those of its parent
// directories up to the top of its repository, and the user's. As in Claude Code, the home directory and its
// parents are not searched.
func Dirs(dir, root string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // no directory to leave out
	} else if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	var dirs []string
	for at := dir; at != home; {
		dirs = append(dirs, filepath.Join(at, ".claude", "agents"))
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			break
		}
		above := filepath.Dir(at)
		if above == at {
			break
		}
		at = above
	}
	if root != "" {
		dirs = append(dirs, filepath.Join(root, "agents"))
	}
	return dirs, nil
}

// read returns the profiles in a directory and those below it, in the order of their names.
func read(dir string) []Entry {
	w := walker{left: MaxFiles}
	w.walk(dir, maxDepth)
	return w.entries
}

type walker struct {
	entries []Entry
	left    int // how many more files and directories may be read
}

func (w *walker) add(path string, p *Profile, err error) {
	p.Path = path
	w.entries = append(w.entries, Entry{Profile: p, Err: err})
}

func (w *walker) walk(dir string, depth int) {
	names, err := readDir(dir, w.left)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil && depth == 0 {
		err = fmt.Errorf("is more than %d directories down, and not read", maxDepth)
	}
	if err != nil {
		w.add(dir, &Profile{}, err)
		return
	}
	for _, name := range names {
		if w.left--; w.left < 0 {
			w.add(dir, &Profile{}, fmt.Errorf("has more than %d files; the others are not read", MaxFiles))
			return
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(path) // follow links, as Claude Code does
		switch {
		case err == nil && info.IsDir():
			w.walk(path, depth-1)
			if w.left < 0 {
				return
			}
		case filepath.Ext(name) != ".md":
		case err != nil:
			w.add(path, &Profile{}, err)
		case !info.Mode().IsRegular():
			w.add(path, &Profile{}, errors.New("is not a regular file"))
		default:
			data, err := readFile(path)
			if err != nil {
				w.add(path, &Profile{}, err)
				continue
			}
			p, err := Parse(data)
			w.add(path, p, err)
		}
	}
}

// readDir returns the sorted names in a directory, at most one more than limit.
func readDir(dir string, limit int) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(limit + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// readFile reads a file, at most one byte more than MaxFile.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}
