package shell

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Program returns the path of this program, for what runs it later: that by which a shell finds it, or under which it was started.
// A link there is not followed, since package managers lead it to the next version, and remove this one.
func Program() (string, error) {
	real, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return found(real, os.Args[0]), nil
}

// found is Program, given the file and what it was started as.
func found(real, started string) string {
	for _, name := range []string{filepath.Base(started), filepath.Base(real), started} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue // it is not there, or in a directory that $PATH names by a relative path
		}
		if path, err = filepath.Abs(path); err == nil && Same(path, real) {
			return path
		}
	}
	return real
}

// Same reports whether two paths name the same program, perhaps by a link.
func Same(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// LookPath is [exec.LookPath] with path in place of $PATH; only its absolute directories count.
func LookPath(path, name string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return found, nil
			}
		}
	}
	return "", exec.ErrNotFound
}
