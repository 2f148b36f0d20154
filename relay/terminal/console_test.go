//go:build unix

package terminal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"teambridge/relay/relaytest/killtest"
)

// The programs of these tests are run by this binary.
func TestMain(m *testing.M) {
	if name := os.Getenv("CONSOLE_PROGRAM"); name != "" {
		parent := os.Getppid()
		go func() { // not even the kill of a test leaves it running
			for range time.Tick(100 * time.Millisecond) {
				if os.Getppid() != parent {
					os.Exit(9)
				}
			}
		}()
		os.Exit(programs[name]())
	}
	os.Exit(killtest.Tests(m))
}

var programs map[string]func() int

func init() {
	programs = map[string]func() int{
		"typed": typedProgram, "flood": floodProgram, "mess": messProgram, "size": sizeProgram, "stop": stopProgram,
		"orphan": orphanProgram, "deaf": deafProgram, "modes": modesProgram, "launcher": launcherProgram, "shell": shellProgram,
	}
}

func program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "CONSOLE_PROGRAM="+name)
	return cmd
}

func raw() {
	if _, err := term.MakeRaw(0); err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
}

// typedProgram prints its input in hexadecimal, and ends with q alone in a read.
// After SUM:N it reads N bytes and prints their sum.
func typedProgram() int {
	raw()
	fmt.Print("\x1b[?2004hready\r\n")
	buf := make([]byte, 1<<16)
	for {
		n, err := os.Stdin.Read(buf)
		switch b := string(buf[:n]); {
		case err != nil:
			return 1
		case b == "q":
			fmt.Print("\x1b[?2004l")
			return 7
		case strings.HasPrefix(b, "SUM:"):
			want, _ := strconv.Atoi(b[4:])
			fmt.Print("sum of ", want, "\r\n")
			sum := sha256.New()
			if _, err := io.CopyN(sum, os.Stdin, int64(want)); err != nil {
				return 1
			}
			fmt.Printf("sum %x\r\n", sum.Sum(nil))
		default:
			fmt.Printf("<%x>\r\n", b)
		}
	}
}

// reads finds the output of typedProgram for each read.
var reads = regexp.MustCompile("<([0-9a-f]+)>")

func flood(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "\x1b[3%dmline %d of a long output ✳\x1b[0m\r\n", i%8, i)
	}
	return b.Bytes()
}

const floodSize = 5 << 20

// floodProgram prints a long text after the first key, reads no other, and ends at once.
func floodProgram() int {
	raw()
	fmt.Print("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return 1
	}
	if _, err := os.Stdout.Write(flood(floodSize)); err != nil {
		return 1
	}
	return 0
}

// messProgram changes the terminal in every way and does not end.
func messProgram() int {
	raw()
	fmt.Print("\x1b[?1049h\x1b[?1000;1006;1004;2004h\x1b[?25l\x1b[>1u\x1b[2;5r\x1b[31m\x1b]0;mess\amessy")
	time.Sleep(time.Hour)
	return 0
}

func sizeProgram() int {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	for {
		size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err != nil {
			return 1
		}
		fmt.Printf("size %d %d %d %d\n", size.Row, size.Col, size.Xpixel, size.Ypixel)
		<-changed
	}
}

func stopProgram() int {
	fmt.Println("stopping")
	if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
		return 1
	}
	fmt.Println("continued")
	return 0
}

// orphanProgram leaves a process behind that has its terminal open and runs a script.
func orphanProgram() int {
	ready, w, err := os.Pipe()
	if err != nil {
		return 1
	}
	cmd := exec.Command("/bin/sh", "-c", `trap "" HUP; echo >&3; exec 3>&-; while kill -0 "$1"; do `+os.Args[1]+`; done`, "sh", strconv.Itoa(os.Getppid()))
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, []*os.File{w}
	if cmd.Start() != nil {
		return 1
	}
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return 1
	}
	fmt.Println("last words", cmd.Process.Pid)
	return 3
}

func modesProgram() int {
	state, err := term.GetState(0)
	fmt.Printf("%+v %v\n", state, err)
	return 0
}

// deafProgram reads nothing and does not end, not even with its terminal.
func deafProgram() int {
	raw()
	signal.Ignore(unix.SIGHUP)
	fmt.Print("ready\r\n")
	time.Sleep(time.Hour)
	return 0
}

// launcherProgram uses the package: it runs the program of its first argument, or the
// command after "exec".
func launcherProgram() int {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM)
	c, err := Open(os.Stdin, os.Stdout, DefaultHotKey)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	if os.Args[1] == "panic" {
		panic("in the goroutine that closes")
	}
	cmd := program(os.Args[1])
	if os.Args[1] == "exec" {
		cmd = exec.Command(os.Args[2], os.Args[3:]...)
	}
	p, err := c.Start(cmd)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	select {
	case <-ended:
		_ = c.Close()
		fmt.Println("closed")
		time.Sleep(time.Hour) // the modes must be right before we end
	case <-p.Done():
		_ = c.Print(fmt.Sprintf("ended: %v\n", p.Wait()))
		<-ended
	}
	return 0
}

// shellProgram runs the launcher as a shell does, in a process group of its own, kills it when
// something is typed, and leaves the terminal as it is.
func shellProgram() int {
	signal.Ignore(unix.SIGTTOU, unix.SIGHUP)
	cmd := program("launcher", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	kill := make(chan os.Signal, 1)
	signal.Notify(kill, unix.SIGUSR1)
	<-kill
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	_ = cmd.Wait()
	time.Sleep(time.Hour)
	return 0
}

// person is the terminal of a test, from the outside.
type person struct {
	t            testing.TB
	keys, screen *os.File // outside, inside

	mu      sync.Mutex
	shown   []byte
	changed *sync.Cond
	frozen  bool // the terminal takes no output
	still   bool // it no longer does
}

func newPerson(t testing.TB) *person {
	t.Helper()
	keys, screen, err := openPTY()
	must(t, err)
	p := &person{t: t, keys: keys, screen: screen}
	p.changed = sync.NewCond(&p.mu)
	p.resize(24, 80)
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 8192)
		for {
			p.mu.Lock()
			for p.frozen {
				p.still = true
				p.changed.Broadcast()
				p.changed.Wait()
			}
			p.still = false
			p.mu.Unlock()
			n, err := keys.Read(buf)
			p.mu.Lock()
			p.shown = append(p.shown, buf[:n]...)
			p.changed.Broadcast()
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		p.freeze(false)
		screen.Close()
		keys.Close()
		<-read
		if t.Failed() {
			t.Logf("the screen: %.2000q", p.shown)
		}
	})
	return p
}

func (p *person) freeze(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = on
	p.changed.Broadcast()
}

// freezes returns when the terminal cannot take more of a long output.
func (p *person) freezes(output func()) {
	p.t.Helper()
	p.freeze(true)
	output()
	p.waits("the frozen terminal", func([]byte) int {
		if p.still {
			return 0
		}
		return -1
	})
	for full := false; !full; {
		ready := []unix.PollFd{{Fd: int32(p.screen.Fd()), Events: unix.POLLOUT}}
		n, err := unix.Poll(ready, 1000) // ms, in which the kernel can move on what was written
		if err != nil && !errors.Is(err, unix.EINTR) {
			p.t.Fatal(err)
		}
		full = err == nil && n == 0
	}
}

func (p *person) resize(rows, cols uint16) {
	p.t.Helper()
	conn, err := p.keys.SyscallConn()
	must(p.t, err)
	if e := conn.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols, Xpixel: 8 * cols, Ypixel: 16 * rows})
	}); e != nil || err != nil {
		p.t.Fatal(e, err)
	}
}

func (p *person) modes() *term.State {
	p.t.Helper()
	state, err := term.GetState(int(p.screen.Fd()))
	must(p.t, err)
	return state
}

func (p *person) types(s string) {
	p.t.Helper()
	if _, err := p.keys.WriteString(s); err != nil {
		p.t.Fatal(err)
	}
}

// sees waits until the screen got the text, and drops the output up to its end.
func (p *person) sees(text string) string {
	p.t.Helper()
	return p.waits(text, func(shown []byte) int {
		if i := bytes.Index(shown, []byte(text)); i >= 0 {
			return i + len(text)
		}
		return -1
	})
}

func (p *person) waits(what string, end func([]byte) int) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	defer context.AfterFunc(ctx, p.changed.Broadcast)()
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil {
		if i := end(p.shown); i >= 0 {
			seen := string(p.shown[:i])
			p.shown = p.shown[i:]
			return seen
		}
		p.changed.Wait()
	}
	p.t.Fatalf("%.200q does not come; the screen shows %.2000q", what, p.shown)
	return ""
}

func open(t testing.TB, p *person) *Console {
	t.Helper()
	c, err := Open(p.screen, p.screen, DefaultHotKey)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func start(t testing.TB, c *Console, cmd *exec.Cmd) *Program {
	t.Helper()
	p, err := c.Start(cmd)
	must(t, err)
	t.Cleanup(func() {
		_ = p.Kill()
		<-p.Done()
	})
	return p
}

func ends(t *testing.T, p *Program, code int) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		t.Fatal("the program does not end")
	}
	err := p.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("exit code %d (%v), want %d", got, err, code)
	}
}

func key(t *testing.T, c *Console) Key {
	t.Helper()
	select {
	case k, ok := <-c.Keys():
		if !ok {
			t.Fatal("the channel of keys is closed")
		}
		return k
	case <-time.After(time.Minute):
		t.Fatal("no key comes")
	}
	return Key{}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	before := me.modes()
	c := open(t, me)
	if reflect.DeepEqual(me.modes(), before) {
		t.Fatal("the terminal is not in raw mode")
	}
	must(t, c.Print("one\ntwo\n"))
	me.sees("one\r\ntwo\r\n")
	me.types("y\x03ä\x1b[A")
	for _, want := range []string{"y", "\x03", "ä", "\x1b[A"} {
		if k := key(t, c); k.Hot || k.Text != want {
			t.Errorf("key %+v, want %q", k, want)
		}
	}
	me.types("\x1b")
	if k := key(t, c); k.Text != "\x1b" {
		t.Errorf("Esc is key %+v", k)
	}
	me.types("\x1b[200~yes\r\x1b[201~\x1d")
	if k := key(t, c); !k.Hot {
		t.Errorf("after a paste: key %+v, want the hot key alone", k)
	}

	p := start(t, c, program("typed"))
	me.sees("ready\r\n")
	if !p.Pastes() {
		t.Error("bracketed pastes of the program are not seen")
	}
	if _, err := c.Start(program("typed")); !errors.Is(err, ErrRunning) {
		t.Errorf("a second program: %v", err)
	}
	if err := c.Print("x"); !errors.Is(err, ErrRunning) {
		t.Errorf("Print while a program runs: %v", err)
	}
	me.types("ab")
	me.sees("<6162>")
	me.types("\x1d")
	if k := key(t, c); !k.Hot {
		t.Errorf("key %+v, want the hot key", k)
	}
	me.types("c\x1b[93;5u\x1b[93;5:3u")
	me.sees("<63>")
	if k := key(t, c); !k.Hot {
		t.Errorf("key %+v, want the hot key", k)
	}
	me.types("\x1a\x1b[122;5u\x1b")
	me.sees("<1b>\r\n")
	must(t, p.Write([]byte("\a")))
	me.sees("<07>")
	if id := p.ID(); id.PID != p.cmd.Process.Pid || id.Group != id.PID {
		t.Errorf("id %+v", id)
	}
	me.types("q")
	ends(t, p, 7)
	if err := p.Signal(os.Interrupt); err != nil {
		t.Errorf("signal to a program that has ended: %v", err)
	}

	p = start(t, c, program("typed"))
	me.sees("ready")
	me.types("\x1b[200~half a paste\x1d")
	me.sees("1d>")
	must(t, p.Kill())
	ends(t, p, -1)
	me.types("\x1d")
	if k := key(t, c); !k.Hot {
		t.Errorf("key %+v, want the hot key: the paste ended with its program", k)
	}
	must(t, errors.Join(c.Close(), c.Close()))
	if !reflect.DeepEqual(me.modes(), before) {
		t.Error("the modes of the terminal are not restored")
	}
	for range c.Keys() { // closed
	}
	if _, err := c.Start(program("typed")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a program after Close: %v", err)
	}
}

func TestNoTerminal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	defer file.Close()
	me := newPerson(t)
	for _, files := range [][2]*os.File{{file, me.screen}, {me.screen, file}} {
		if _, err := Open(files[0], files[1], DefaultHotKey); !errors.Is(err, ErrNoTerminal) {
			t.Errorf("%v", err)
		}
	}
}

func TestProgramThatDoesNotStart(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	c := open(t, me)
	if _, err := c.Start(exec.Command("/nonexistent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	ends(t, start(t, c, program("stop")), 0)
}

// While a program reads nothing, typed keys wait; the hot key and everything else work.
func TestBlockedKeyboard(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	c := open(t, me)
	p := start(t, c, program("typed"))
	me.sees("ready")
	p.Block()
	me.types("kept\x1d")
	if k := key(t, c); !k.Hot {
		t.Errorf("key %+v", k)
	}
	must(t, p.Write([]byte("\a")))
	me.sees("<07>")
	if got := p.Take(); string(got) != "kept" {
		t.Errorf("took %q", got)
	}
	me.types("given\x1d")
	key(t, c)
	p.Unblock()
	if seen := me.sees("<6769766") + me.sees("56e>"); strings.Contains(seen, "<6b") {
		t.Errorf("taken keys came anyway: %q", seen)
	}
	me.types("q")
	ends(t, p, 7)

	p = start(t, c, program("deaf"))
	me.sees("ready")
	big := strings.Repeat("x", 300<<10) // more than a pseudo-terminal takes
	done := make(chan struct{})
	go func() {
		defer close(done)
		me.types(big + "\x1d")
	}()
	if k := key(t, c); !k.Hot {
		t.Errorf("key %+v", k)
	}
	<-done
	p.Block() // in the middle of a write
	p.keyboard.mu.Lock()
	if p.writing {
		t.Error("the program is still given what was typed")
	}
	p.keyboard.mu.Unlock()
	kept := p.Take()
	if len(kept) == 0 || strings.Trim(string(kept), "x") != "" || len(kept) >= len(big) {
		t.Errorf("%d bytes are kept of %d", len(kept), len(big))
	}
	if err := p.Write([]byte(big)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("keys for a program that does not read: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	ends(t, p, -1)
}

// The pseudo-terminal has the modes of the person's terminal, such as the erase key.
func TestModes(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	stty := exec.Command("stty", "erase", "^H", "-ixon")
	stty.Stdin = me.screen
	if out, err := stty.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before := me.modes()
	ends(t, start(t, open(t, me), program("modes")), 0)
	me.sees(fmt.Sprintf("%+v <nil>", before))
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	c := open(t, me)
	p := start(t, c, program("typed"))
	me.sees("ready")
	k := p.keyboard
	long := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.last = time.Now().Add(-time.Hour)
	}
	for _, test := range []struct {
		keys  string
		typed bool
	}{{"\x1b[I", false}, {"\x1b[<35;1;1M", false}, {"a", true}, {"\x1b[A", true}, {"\x1b[200~x\x1b[201~", true}} {
		long()
		me.types(test.keys)
		me.waits(fmt.Sprintf("%x", test.keys), func(shown []byte) int {
			// The program may read a paste in pieces.
			got := ""
			for _, read := range reads.FindAllSubmatchIndex(shown, -1) {
				if got += string(shown[read[2]:read[3]]); strings.HasSuffix(got, fmt.Sprintf("%x", test.keys)) {
					return read[1]
				}
			}
			return -1
		})
		if quiet := p.Quiet(); (quiet < time.Hour) != test.typed {
			t.Errorf("%v after %q", quiet, test.keys)
		}
	}
	long()
	p.Block()
	me.types("\x1d")
	key(t, c)
	if quiet := p.Quiet(); quiet >= time.Hour {
		t.Errorf("%v after the hot key, to a blocked keyboard", quiet)
	}
}

func TestLargePaste(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	c := open(t, me)
	p := start(t, c, program("typed"))
	me.sees("ready")
	var text strings.Builder
	text.WriteString(pasteStart)
	for i := 0; text.Len() < 135<<10; i++ {
		fmt.Fprintf(&text, "line %d\x1d\x1b[93;5u of a paste\r", i)
	}
	text.WriteString(pasteEnd)
	me.types(fmt.Sprintf("SUM:%d", text.Len()))
	me.sees("sum of")
	me.types(text.String())
	me.sees(fmt.Sprintf("sum %x", sha256.Sum256([]byte(text.String()))))
	select {
	case k := <-c.Keys():
		t.Errorf("key %+v in a paste", k)
	default:
	}
	me.types("q")
	ends(t, p, 7)
}

// A long output is shown whole and in order, also its last bytes, at the pace of the
// terminal, while an unread paste comes the other way.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	c := open(t, me)
	p := start(t, c, program("flood"))
	me.sees("ready")
	me.freezes(func() { me.types("g") })
	me.types(strings.Repeat("x", 200<<10) + "\x1d")
	if k := key(t, c); !k.Hot {
		t.Errorf("key %+v", k)
	}
	select {
	case <-p.Done():
		t.Error("the program did not wait for the terminal")
	default:
	}
	me.freeze(false)
	for i := 0; ; i++ { // notices come in between, and nothing is lost
		c.SetNotice(strconv.Itoa(i))
		select {
		case <-p.Done():
		case <-time.After(time.Millisecond):
			continue
		}
		break
	}
	ends(t, p, 0)
	c.SetNotice("the last")
	me.waits("the last notice", func(shown []byte) int {
		if i := bytes.LastIndex(shown, []byte("\x1b]0;the last\a")); i < 0 {
			return -1
		}
		return 0
	})
	want := append(flood(floodSize), "\x1b[J"+pastesOn...)
	me.mu.Lock()
	shown := slices.Clone(me.shown)
	me.mu.Unlock()
	notices := regexp.MustCompile("\x1b]0;[a-z0-9 ]*\a")
	if n := len(notices.FindAll(shown, -1)); n < 3 {
		t.Errorf("%d notices were shown", n)
	}
	if got := notices.ReplaceAll(shown, nil); !bytes.Equal(got, want) {
		t.Errorf("%d bytes of output, want %d; or in another order", len(got), len(want))
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	l := launcher(t, me, "size")
	me.sees("size 24 80 640 384")
	for _, size := range [][2]uint16{{30, 100}, {10, 20}, {50, 200}} {
		me.resize(size[0], size[1])
		me.sees(fmt.Sprintf("size %d %d %d %d", size[0], size[1], 8*size[1], 16*size[0]))
	}
	l.ends(t)
}

type launched struct {
	cmd    *exec.Cmd
	before *term.State
	me     *person
}

// launcher runs launcherProgram as the leader of the session of the person's terminal.
func launcher(t *testing.T, me *person, name string) *launched {
	t.Helper()
	l := &launched{cmd: program("launcher", name), before: me.modes(), me: me}
	l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = me.screen, me.screen, me.screen
	leadSession(l.cmd)
	must(t, l.cmd.Start())
	t.Cleanup(func() {
		_ = l.cmd.Process.Kill()
		_ = l.cmd.Wait()
	})
	return l
}

// ends ends the launcher by SIGTERM, and checks the modes of the terminal.
func (l *launched) ends(t *testing.T) {
	t.Helper()
	must(t, l.cmd.Process.Signal(unix.SIGTERM))
	l.me.sees("closed\r\n") // \r: output is processed again
	if !reflect.DeepEqual(l.me.modes(), l.before) {
		t.Error("the modes of the terminal are not restored")
	}
}

func TestPanicRestores(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	l := launcher(t, me, "panic")
	me.sees("panic: in the goroutine that closes\r\n")
	_ = l.cmd.Wait()
	if !reflect.DeepEqual(me.modes(), l.before) {
		t.Error("the modes of the terminal are not restored")
	}
}

// If we are killed with our whole process group, the terminal is still restored.
func TestKilledLauncherRestores(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	before := me.modes()
	shell := program("shell", "mess")
	shell.Stdin, shell.Stdout, shell.Stderr = me.screen, me.screen, me.screen
	leadSession(shell)
	must(t, shell.Start())
	defer func() {
		_ = shell.Process.Kill()
		_ = shell.Wait()
	}()
	me.sees("mess")
	if reflect.DeepEqual(me.modes(), before) {
		t.Fatal("the terminal is not in raw mode")
	}
	must(t, shell.Process.Signal(unix.SIGUSR1))
	me.sees("\x1b[?1000;1002;1003;1006l")
	me.sees("\x1b[J") // the last output of the guard
	if !reflect.DeepEqual(me.modes(), before) {
		t.Error("the modes of the terminal are not restored")
	}
}

// A shell stops us, uses the terminal and continues us.
func TestContinuedLauncher(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	l := launcher(t, me, "size")
	me.sees("size 24 80")
	inRaw := me.modes()
	must(t, l.cmd.Process.Signal(unix.SIGSTOP))
	must(t, term.Restore(int(me.screen.Fd()), l.before))
	must(t, l.cmd.Process.Signal(unix.SIGCONT))
	me.sees("size 24 80") // the program draws again
	if !reflect.DeepEqual(me.modes(), inRaw) {
		t.Error("the terminal is not in raw mode again")
	}
	l.ends(t)
}

func TestStoppedProgramGoesOn(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	c := open(t, me)
	p := start(t, c, program("stop"))
	me.sees("stopping")
	me.sees("continued")
	ends(t, p, 0)
}

func TestKilledProgramIsReset(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	before := me.modes()
	c := open(t, me)
	me.sees(pastesOn)
	p := start(t, c, program("mess"))
	me.sees("messy")
	if p.Title() != "mess" {
		t.Errorf("title %q", p.Title())
	}
	c.SetNotice("N·")
	me.sees("\x1b]0;N·mess\a")
	must(t, p.Kill())
	ends(t, p, -1)
	me.sees("\x1b[<1u\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b7\x1b[r\x1b8\x1b[m\x1b]0;N·\a" + pastesOn)

	// Close ends one that runs.
	p = start(t, c, program("mess"))
	me.sees("messy")
	must(t, c.Close())
	ends(t, p, -1)
	me.sees("\x1b[?1049l")
	me.sees("\x1b]0;\a" + pastesOff)
	if !reflect.DeepEqual(me.modes(), before) {
		t.Error("the modes of the terminal are not restored")
	}
}

// The end of a program counts even if other processes go on in its terminal.
func TestEndOfProgramAlone(t *testing.T) {
	t.Parallel()
	for _, others := range []string{"sleep 1", "echo noise"} {
		me := newPerson(t)
		c := open(t, me)
		p := start(t, c, program("orphan", others))
		ends(t, p, 3)
		me.sees("last words ")
		pid, err := strconv.Atoi(strings.TrimSpace(me.sees("\r\n")))
		if others := unix.Kill(pid, 0); others != nil {
			t.Fatalf("the other process does not run: %v", others)
		}
		must(t, err)
		t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
		if err := c.Print("next"); err != nil {
			t.Error(err)
		}
		me.sees("next")
	}
}

// A terminal that takes no output does not keep us from closing.
func TestCloseOfFrozenTerminal(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	before := me.modes()
	c := open(t, me)
	c.limit = 500 * time.Millisecond
	p := start(t, c, program("flood"))
	me.sees("ready")
	me.freezes(func() { me.types("g") })
	if err := c.Close(); err == nil {
		t.Error("the terminal was reset")
	}
	if !reflect.DeepEqual(me.modes(), before) {
		t.Error("the modes of the terminal are not restored")
	}
	me.freeze(false)
	<-p.Done()
}

// A terminal that is frozen when a program starts does not keep us from closing.
func TestCloseOfTerminalFrozenAtStart(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	c := open(t, me)
	c.limit = 500 * time.Millisecond
	me.freezes(func() { go func() { _ = c.Print(strings.Repeat("x", 1<<20)) }() })
	p := start(t, c, program("deaf"))
	if err := c.Close(); err == nil {
		t.Error("the terminal was reset")
	}
	me.freeze(false)
	<-p.Done()
}

// When the terminal is gone the keys end, and the program is hung up by Close.
func TestTerminalGone(t *testing.T) {
	t.Parallel()
	me := newPerson(t)
	c := open(t, me)
	p := start(t, c, program("mess"))
	me.sees("messy")
	me.keys.Close()
	for range c.Keys() {
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	ends(t, p, -1)
}
