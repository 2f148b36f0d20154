// Package proc reads what Linux says of processes in /proc. On other systems each function fails.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Stat is what /proc/PID/stat says of a process.
type Stat struct {
	Name       string // of its program, cut to 15 bytes
	Ended      bool   // it is a zombie: it has ended, and its parent has not asked for that
	Stopped    bool   // by a signal, as by Ctrl-Z at its terminal, or by a debugger
	Environ    int    // the size of its environment, in bytes; -1 within execve(2), where that is not there yet
	Parent     int
	Group      int
	Foreground int    // the process group in front of its terminal
	Start      string // when it started, in clock ticks since boot, as Claude Code writes it
}

// Read reads the [Stat] of a process. It is an error if there is none.
func Read(pid int) (Stat, error) {
	file := "/proc/" + strconv.Itoa(pid) + "/stat"
	data, err := read(file)
	if err != nil {
		return Stat{}, &os.PathError{Op: "read", Path: file, Err: err}
	}
	// The name is in parentheses and may hold some itself. After it: state, parent, group, session, terminal, group in front.
	start, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	after := strings.Fields(string(data[end+1:]))
	if start < 0 || end < start || len(after) < 20 {
		return Stat{}, errors.New(file + " has an unknown form")
	}
	s := Stat{Name: string(data[start+1 : end]), Ended: after[0] == "Z" || after[0] == "X", Stopped: after[0] == "T" || after[0] == "t", Start: after[19]}
	for i, to := range map[int]*int{1: &s.Parent, 2: &s.Group, 5: &s.Foreground} {
		if *to, err = strconv.Atoi(after[i]); err != nil {
			return Stat{}, fmt.Errorf("%s: %w", file, err)
		}
	}
	// Without a size, it is a thread of the kernel or a zombie. The start of its code is set after its environment.
	const size, startCode, envStart, envEnd = 20, 23, 47, 48
	if len(after) <= envEnd || after[size] == "0" {
		return s, nil
	}
	from, ferr := strconv.ParseUint(after[envStart], 10, 64)
	to, terr := strconv.ParseUint(after[envEnd], 10, 64)
	if s.Environ = int(to - from); after[startCode] == "0" {
		s.Environ = -1
	}
	return s, errors.Join(ferr, terr)
}

// read returns the beginning of a file. It takes 3 system calls, where [os.ReadFile] takes 10: a service reads the stat of
// each session every 2 s.
func read(file string) ([]byte, error) {
	f, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(f)
	data := make([]byte, 1024) // it has 52 numbers and a name
	n, err := syscall.Read(f, data)
	return data[:max(n, 0)], err
}

// Boot is the id that Linux gives each of its starts.
func Boot() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// Booted returns when this machine was started, to 10 ms; the zero time if that is not known.
func Booted() time.Time {
	data, err := os.ReadFile("/proc/uptime")
	now := time.Now()
	up, _, _ := strings.Cut(string(data), " ")
	seconds, perr := strconv.ParseFloat(up, 64)
	if err != nil || perr != nil {
		return time.Time{}
	}
	return now.Add(-time.Duration(seconds * float64(time.Second)))
}

// Namespace returns the namespace of process ids that this process is in, such as "pid:[4026531836]".
func Namespace() (string, error) { return os.Readlink("/proc/self/ns/pid") }
