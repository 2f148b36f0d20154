package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/teams/proc"
)

// Lookup is [os.LookupEnv] for an environment of entries "NAME=value"; the last entry of a name counts.
func Lookup(env []string, name string) (value string, ok bool) {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// FindByEnv returns all other readable processes with an entry "NAME=value" in their environment; none without
// /proc. Descendants inherit the environment in every group and session.
func FindByEnv(entry string) (pids []int) {
	for pid, env := range environments {
		if slices.Contains(env, entry) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Values returns the different values of a variable in the environments of the processes of [FindByEnv], sorted.
func Values(name, entry string) (values []string) {
	for _, env := range environments {
		if v, ok := Lookup(env, name); ok && slices.Contains(env, entry) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// environments yields the other readable processes, with their environments.
func environments(yield func(pid int, env []string) bool) {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid; with /environ in it, Glob would read each directory
	self, err := proc.Read(os.Getpid())
	told := err == nil && self.Environ >= 0 // gVisor tells no sizes
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Other users' environments cannot be read, and a process may end meanwhile.
		if env, err := environ(pid, told); err == nil && !yield(pid, strings.Split(string(env), "\x00")) {
			return
		}
	}
}

// environ reads the environment of a process. If that calls execve(2) meanwhile, the environment may be missing or cut:
// then it is read again, for up to a second, if the system tells its size.
func environ(pid int, told bool) (env []byte, err error) {
	for start := time.Now(); ; {
		env, err = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil || !told || time.Since(start) > time.Second {
			return env, err
		}
		if s, err := proc.Read(pid); err != nil || s.Environ == len(env) {
			return env, nil
		}
	}
}

// goneWithin is how long killed processes may take to be gone.
const goneWithin = 10 * time.Second

// KillByEnv kills the processes of [FindByEnv], and all that they start meanwhile, and returns once they are gone.
// After 10 s it returns those that are left.
func KillByEnv(entry string) (left []int) {
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if left = FindByEnv(entry); len(left) == 0 || time.Since(start) > goneWithin {
			return left
		}
		for _, pid := range left {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // ignore the error: the process may be gone
			}
		}
	}
}
