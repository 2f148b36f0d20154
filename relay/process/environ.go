package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Lookup is [os.LookupEnv] for an environment of entries "NAME=value"; the last one counts.
func Lookup(env []string, name string) (value string, ok bool) {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// With returns all other readable processes with an entry "NAME=value" in their environment; none without
// /proc. Descendants inherit the environment, in whatever group or session they are.
func With(entry string) (pids []int) {
	for pid, env := range environments {
		if slices.Contains(env, entry) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Values returns the values that a variable has in the environments of the processes that [With] returns, sorted, each once.
func Values(name, entry string) (values []string) {
	for _, env := range environments {
		if v, ok := Lookup(env, name); ok && slices.Contains(env, entry) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// environments yields the processes but this one that can be asked, with their environments.
func environments(yield func(pid int, env []string) bool) {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right; one with environ in it would have each directory read
	for _, dir := range dirs {
		// Those of others cannot be read; one that ends meanwhile is gone.
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && pid != os.Getpid() && !yield(pid, strings.Split(string(env), "\x00")) {
			return
		}
	}
}

// goneWithin is how long processes that were killed may take to be gone.
const goneWithin = 10 * time.Second

// KillWith kills those processes and any that they start meanwhile, and returns when they are gone. After 10
// s it returns those that are left.
func KillWith(entry string) (left []int) {
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if left = With(entry); len(left) == 0 || time.Since(start) > goneWithin {
			return left
		}
		for _, pid := range left {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // gone meanwhile is as good
			}
		}
	}
}
