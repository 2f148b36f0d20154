package process

import (
	"os/exec"
	"syscall"
	"unsafe"

	"teambridge/teams/proc"
)

// stat is what Linux says of a process; ok is false if it does not run, as a zombie does not.
func stat(pid int) (s proc.Stat, ok bool) {
	s, err := proc.Read(pid)
	return s, err == nil && !s.Ended
}

// Ticks returns when a process started, in ticks since boot, as Claude Code writes it; "" if it does not run, as a zombie does not.
func Ticks(pid int) string {
	if s, ok := stat(pid); ok {
		return s.Start
	}
	return ""
}

// started tells whether a process runs, and when it started, in ticks since boot, with the id of that boot.
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

// Parent is the parent of a process; 0 if it does not run.
func Parent(pid int) int {
	if s, ok := stat(pid); ok {
		return s.Parent
	}
	return 0
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
