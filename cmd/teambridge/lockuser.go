package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"teambridge/inbox/sqlite"
	relayprocess "teambridge/relay/process"
	"teambridge/teams/flock"
	"teambridge/teams/lockedfile"
)

// lockUser says why what other programs left in the place of a lock may be in use; "" if
// nothing shows that. A directory is in use if something in it is.
func lockUser(path string) (why string) {
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case time.Since(info.ModTime()) < lockedfile.StaleAfter:
			why = fmt.Sprintf("it is in use: it was changed less than %s ago", lockedfile.StaleAfter)
		case info.Mode().IsRegular(): // opening a pipe would wait for its other end
			why = fileUser(path)
		}
		if why != "" {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil && why == "" {
		return fmt.Sprintf("it may be in use: %v", err)
	}
	return why
}

// fileUser is lockUser for a regular file.
func fileUser(path string) string {
	if users, _ := sqlite.Users(path); len(users) > 0 {
		return fmt.Sprintf("it is in use: %s has it open", users[0])
	}
	held, err := flock.Held(path)
	switch {
	case err != nil:
		return fmt.Sprintf("it may be in use: %v", err)
	case held:
		return "it is in use: a process holds its lock"
	}
	start, err := readStart(path)
	if err != nil {
		return fmt.Sprintf("it may be in use: %v", err)
	}
	// Programs write their process id into the first line, or use it as the name of the file.
	first, _, _ := strings.Cut(start, "\n")
	for _, text := range []string{first, filepath.Base(path)} {
		pid, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			continue
		}
		if alive, _ := (relayprocess.Predecessor{PID: pid}).Alive(); alive {
			return fmt.Sprintf("it is in use: process %d, which it names, is running", pid)
		}
	}
	return ""
}

// readStart returns the first bytes of a file.
func readStart(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 64))
	return string(data), err
}
