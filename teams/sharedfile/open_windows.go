package sharedfile

import (
	"os"
	"path/filepath"
)

// open goes down from the top of the volume: all that an [os.Root] opens on the way is shared, but not the
// directory that it starts at. (With files that os.NewFile makes of handles, many more tests failed with Wine. Why is
// not known.) What a Root refuses, such as a link to another volume, is opened unshared.
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
