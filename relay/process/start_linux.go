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

// started tells whether a process runs, and when it started: field 22 of /proc/<pid>/stat, in ticks since boot, with the
// id of that boot. A zombie does not run.
func started(pid int) (start string, there bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", false
	}
	// The name, in parentheses, may hold some itself. Behind it the fields begin with the third, the state.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", true
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return "", false
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", true
	}
	return fields[19] + "@" + strings.TrimSpace(string(boot)), true
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
