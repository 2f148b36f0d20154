package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// With returns the processes but this one that have an entry "NAME=value" in their environment, as
// far as they can be asked; none where there is no /proc. What a program starts has its
// environment, in whatever group or session it is.
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
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is right
	for _, file := range files {
		// Those of others cannot be read; one that ends meanwhile is gone.
		env, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && pid != os.Getpid() && !yield(pid, strings.Split(string(env), "\x00")) {
			return
		}
	}
}

// KillWith kills those processes.
func KillWith(entry string) {
	for _, pid := range With(entry) {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // gone meanwhile is as good
		}
	}
}
