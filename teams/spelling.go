package teams

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// names is an [os.Root], or a substitute whose file system ignores case.
type names interface {
	Lstat(name string) (fs.FileInfo, error)
	Open(name string) (*os.File, error)
}

// spelling returns the actual spelling of the directory entry of a name, or the name itself if there is no
// entry. Most file systems of macOS and Windows ignore case, and those of macOS also ignore the Unicode
// normal form. Records and locks use the name as their key. Without spelling, they would treat two spellings
// of one team as two teams.
func spelling(dir names, parent, name string) string {
	is, err := dir.Lstat(parent + "/" + name)
	if err != nil || !otherwise(dir, parent, name, is) {
		return name
	}
	entries, err := list(dir, parent)
	if err != nil {
		return name
	}
	found := name
	for _, e := range entries {
		if e.Name() == name {
			return name
		}
		// Lstat, not e.Info: on Windows, a listing need not have the number of a file.
		if info, err := dir.Lstat(parent + "/" + e.Name()); err == nil && os.SameFile(is, info) {
			found = e.Name()
		}
	}
	return found
}

// otherwise reports whether the entry called name can have another spelling. If not, the caller need not list
// all entries.
func otherwise(dir names, parent, name string, is fs.FileInfo) bool {
	if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		return true // its normal form may differ
	}
	swapped := strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, name)
	other, err := dir.Lstat(parent + "/" + swapped)
	return swapped != name && err == nil && os.SameFile(is, other)
}

// folds reports whether the team's file system ignores case in names.
func (t *Team) folds() bool {
	is, err := t.dir.Lstat(configFile)
	return err == nil && otherwise(t.dir, ".", configFile, is)
}

// InboxFile returns the path of a member's inbox, for use as a key: all names that lead to one file have the
// same path. On a file system that ignores case, the name is in lower case. The file need not exist.
func (t *Team) InboxFile(member string) string {
	if t.folds() {
		member = strings.ToLower(strings.TrimSuffix(spelling(t.dir, inboxesDir, member+".json"), ".json"))
	}
	return filepath.Join(t.path, inboxesDir, member+".json")
}
