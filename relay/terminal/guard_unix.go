//go:build unix

package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// guard is a process that restores the terminal if teambridge is killed. Shells restore its modes, but not
// what a program switched on, such as mouse reports or kitty's keyboard mode.
type guard struct {
	cmd  *exec.Cmd
	pipe *os.File // its end without a word means that we were killed
}

// The guard has its own process group, so that it survives a kill of ours. If the modes are no longer ours, a
// shell was faster and has set its own.
const guardScript = `trap '' HUP INT QUIT TERM TTIN TTOU TSTP
raw=$(stty -g)
read -r word <&3
[ "$word" = ` + guardDone + ` ] && exit
[ "$(stty -g)" = "$raw" ] && stty "$1"
printf %s "$2"`

const guardDone = "restored"

// guardReset switches off everything that a program may have switched on. Unlike [screen.reset] it does not
// know what that was.
var guardReset = strings.Join([]string{
	"\x1b\\",                  // ends a string
	"\x1b[<9u",                // keyboard of kitty, of the alternate screen
	"\x1b[?1047l", "\x1b[<9u", // unlike 1049 it does not move the cursor
	"\x1b[?1000;1002;1003;1006l",      // mouse
	"\x1b[?1004;2004;2026;2031;2048l", // focus, paste, updates, colors, size
	"\x1b[?1l", "\x1b>", "\x1b[?7h", "\x1b[?25h", "\x1b[>4;0m", "\x1b[4l", "\x1b7\x1b[r\x1b8", "\x1b[m", "\x1b(B", "\x1b[0 q",
	"\x1b]8;;\x1b\\", "\x1b]9;4;0\a", "\x1b]0;\a", // link, progress, title
	"\x1b[999B\r\n", "\x1b[J",
}, "")

// modes returns the modes of a terminal as stty takes them.
func modes(in *os.File) (string, error) {
	cmd := exec.Command("stty", "-g")
	cmd.Stdin = in
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// newGuard starts a guard, which restores modes. The terminal is in raw mode.
func newGuard(in, out *os.File, modes string) (*guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", guardScript, "sh", modes, guardReset)
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = in, out, []*os.File{r}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("guard of the terminal: %w", err)
	}
	return &guard{cmd, w}, nil
}

// release ends the guard without restoring anything.
func (g *guard) release() {
	if g == nil {
		return
	}
	_, _ = g.pipe.WriteString(guardDone + "\n") // it may have been killed itself
	_ = g.pipe.Close()
	_ = g.cmd.Wait()
}
