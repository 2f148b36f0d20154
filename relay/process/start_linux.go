package process

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// stat is /proc/<pid>/stat from its third field on, the state; nil if the process does not run, as a zombie does not.
func stat(pid int) []string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	// The name, in parentheses, may hold some itself.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return nil
	}
	return fields
}

// Ticks returns when a process started, in ticks since boot, as Claude Code writes it; "" if it does not run, as a zombie does not.
func Ticks(pid int) string {
	fields := stat(pid)
	if fields == nil {
		return ""
	}
	return fields[19]
}

// started tells whether a process runs, and when it started, in ticks since boot, with the id of that boot.
func started(pid int) (start string, there bool) {
	fields := stat(pid)
	if fields == nil {
		return "", false
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", true
	}
	return fields[19] + "@" + strings.TrimSpace(string(boot)), true
}

// Parent is the parent of a process; 0 if it does not run.
func Parent(pid int) int {
	fields := stat(pid)
	if fields == nil {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1]) // 0 on an error
	return parent
}

// Identify is a child that has just been started, and is not reaped before this is done.
func Identify(pid int) Predecessor {
	start, _ := started(pid)
	if start == "" {
		// It can have ended already, and then its stat is still there.
		start = "ended"
	}
	return Predecessor{PID: pid, Group: pid, Start: start}
}

// WaitExit waits until the process has exited and leaves it for cmd.Wait to reap: until then neither its id nor its
// group can become another's.
func WaitExit(cmd *exec.Cmd) {
	const pPid = 1
	var info [128]byte // siginfo_t
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPid, uintptr(cmd.Process.Pid),
			uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// wait waits for a command, and ends its group before the id can be given to another.
func wait(cmd *exec.Cmd, group int) error {
	WaitExit(cmd)
	_ = KillGroup(group)
	return cmd.Wait()
}
