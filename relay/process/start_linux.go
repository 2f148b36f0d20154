package process

import (
	"os/exec"
	"syscall"
	"unsafe"

	"teambridge/teams/proc"
)

// stat returns Linux's data about a process; ok is false if it is not running. A zombie is not running.
func stat(pid int) (s proc.Stat, ok bool) {
	s, err := proc.Read(pid)
	return s, err == nil && !s.Ended
}

// Ticks returns when a process started, in ticks since boot, the form that Claude Code writes. It is "" if
// the process is not running.
func Ticks(pid int) string {
	if s, ok := stat(pid); ok {
		return s.Start
	}
	return ""
}

// started returns when a process started, in ticks since boot, with the id of the boot. there is false if it
// is not running.
func started(pid int) (start string, there bool) {
	s, ok := stat(pid)
	if !ok {
		return "", false
	}
	boot, err := proc.Boot()
	if err != nil {
		return "", true
	}
	return s.Start + "@" + boot, true
}

// Parent returns the parent of a process; 0 if the process is not running.
func Parent(pid int) int {
	if s, ok := stat(pid); ok {
		return s.Parent
	}
	return 0
}

// Stopped reports whether a process was stopped, as by Ctrl-Z at its terminal, and does nothing until it is continued.
func Stopped(pid int) bool {
	s, ok := stat(pid)
	return ok && s.Stopped
}

// Identify returns the identity of a child that was just started. The child must not be reaped before
// Identify returns.
func Identify(pid int) Predecessor {
	start, _ := started(pid)
	if start == "" {
		// The child may have ended already. It has not been reaped, so its stat still exists.
		start = "ended"
	}
	return Predecessor{PID: pid, Group: pid, Start: start}
}

// WaitExit waits until the process has exited, and leaves it for cmd.Wait to reap. Until then no other
// process can get its id or its group.
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

// wait waits for a command, and ends its group before another process can get the id.
func wait(cmd *exec.Cmd, group int) error {
	WaitExit(cmd)
	_ = KillGroup(group)
	return cmd.Wait()
}
