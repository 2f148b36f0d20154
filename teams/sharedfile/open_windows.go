package sharedfile

import (
	"os"
	"path/filepath"
)

// open goes down from the top of the volume: all that an [os.Root] opens on the way is shared, but not the
// directory that it starts at. (A file that os.NewFile makes of a handle is taken for an overlapped one by
// Wine, and breaks others.) What a Root refuses, such as a link to another volume, is opened unshared.
func open(path string) (*os.File, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	top := filepath.VolumeName(abs) + `\`
	rel, err := filepath.Rel(top, abs)
	if err != nil {
		return os.Open(path)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return os.Open(path)
	}
	defer root.Close()
	if f, err := root.Open(rel); err == nil {
		return f, nil
	}
	return os.Open(path)
}
