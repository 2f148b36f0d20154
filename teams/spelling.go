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

// spelling returns the actual spelling of the directory entry that name leads to; name itself if there is
// none. Most file systems of macOS and Windows ignore case, and those of macOS also the Unicode normal form.
// Without this, records and locks, which are keyed by name, would treat two spellings of one team as two
// teams.
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
		// Not e.Info: a listing of Windows need not have the number of a file.
		if info, err := dir.Lstat(parent + "/" + e.Name()); err == nil && os.SameFile(is, info) {
			found = e.Name()
		}
	}
	return found
}

// otherwise reports whether the entry called name can have another spelling, so that listing all entries can
// be avoided.
func otherwise(dir names, parent, name string, is fs.FileInfo) bool {
	if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		return true // as its normal form
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

// folds reports whether the file system of the team ignores case in names.
func (t *Team) folds() bool {
	is, err := t.dir.Lstat(configFile)
	return err == nil && otherwise(t.dir, ".", configFile, is)
}

// InboxFile returns the path of a member's inbox, whose name is the same for all names that lead to one file. It is
// made for keys: on a file system that ignores case, it is in lower case. The file need not exist.
func (t *Team) InboxFile(member string) string {
	if t.folds() {
		member = strings.ToLower(strings.TrimSuffix(spelling(t.dir, inboxesDir, member+".json"), ".json"))
	}
	return filepath.Join(t.path, inboxesDir, member+".json")
}
