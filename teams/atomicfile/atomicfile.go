// Package atomicfile replaces whole files at once: whoever opens one finds the old
// content or the new, and a write that fails, or whose process is killed, leaves the
// old. It is for files of our own and of the user's. Inboxes, which others write too,
// belong to package lockedfile.
//
// The new content is written to a hidden file in the same directory, which is flushed
// to the disk and renamed. A kill can leave that file there: .NAME and a number.
package atomicfile

import "io"

// newFileMode is the mode of a file that was not there. Others may not read it, not even while it is written.
const newFileMode = 0o600

// Write replaces the file at path with data. It keeps the mode of the file that is
// there; a new one can be read by its owner alone. A symbolic link is itself replaced.
func Write(path string, data []byte) error {
	return Replace(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
