//go:build unix

package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// guard is a process that restores the terminal if teambridge is killed. A shell restores only the terminal's
// modes, not the features that a program has enabled, such as mouse reports or kitty's keyboard mode.
type guard struct {
	cmd  *exec.Cmd
	pipe *os.File // if it closes without guardDone, teambridge was killed
}

// The guard has its own process group, so that it survives when our group is killed. If the modes are no
// longer raw, a shell was faster and has set its own.
const guardScript = `trap '' HUP INT QUIT TERM TTIN TTOU TSTP
raw=$(stty -g)
read -r word <&3
[ "$word" = ` + guardDone + ` ] && exit
[ "$(stty -g)" = "$raw" ] && stty "$1"
printf %s "$2"`

const guardDone = "restored"

// guardReset disables every feature that a program may have enabled. Unlike [screen.reset], it cannot know
// which.
var guardReset = strings.Join([]string{
	"\x1b\\",                  // ends a string
	"\x1b[<9u",                // kitty's keyboard modes of the alternate screen
	"\x1b[?1047l", "\x1b[<9u", // unlike 1049, it does not move the cursor
	"\x1b[?1000;1002;1003;1006l",      // mouse
	"\x1b[?1004;2004;2026;2031;2048l", // focus, paste, updates, colors, size
	"\x1b[?1l", "\x1b>", "\x1b[?7h", "\x1b[?25h", "\x1b[>4;0m", "\x1b[4l", "\x1b7\x1b[r\x1b8", "\x1b[m", "\x1b(B", "\x1b[0 q",
	"\x1b]8;;\x1b\\", "\x1b]9;4;0\a", "\x1b]0;\a", // link, progress, title
	"\x1b[999B\r\n", "\x1b[J",
}, "")

// modes returns the modes of a terminal in the form that stty accepts.
func modes(in *os.File) (string, error) {
	cmd := exec.Command("stty", "-g")
	cmd.Stdin = in
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// newGuard starts a guard that restores modes. The terminal must be in raw mode.
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

// release ends the guard, which then restores nothing.
func (g *guard) release() {
	if g == nil {
		return
	}
	_, _ = g.pipe.WriteString(guardDone + "\n") // ignore the error: the guard itself may have been killed
	_ = g.pipe.Close()
	_ = g.cmd.Wait()
}
