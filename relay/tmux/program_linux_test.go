package tmux

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// envProgram makes the test binary an agent in a pane: it is the socket of the test.
const envProgram = "TERMINAL_TEST_PROGRAM"

func TestMain(m *testing.M) {
	Relax(patience) // on a busy machine, a server can take ten seconds to start
	if socket := os.Getenv(envProgram); socket != "" {
		runProgram(socket)
		return
	}
	// Names that are not ASCII have to be right in every locale.
	if err := os.Setenv("LC_ALL", "C"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// event is a report of the program to the test.
type event struct {
	What string
	Data []byte // what was read, typed, submitted
}

// program is an agent program that draws a composer as Claude Code does and runs the commands of the test.
type program struct {
	out      *json.Encoder
	commands chan string

	draft   string
	stash   string
	nostash bool
	mark    string // stands for a long paste
	after   int    // where the draft goes on after that
	paste   bool   // within a bracketed paste
	pastes  int
	busy    bool
	dialog  string
	queue   bool // shows that messages wait in it
	swallow int  // how many Enters are lost
	deaf    bool // all Enters are
	slow    bool // the next Enter is acted on only when something else is read
	owed    bool // and was read
	flush   bool // discards its input, as a program does that sets the modes of its terminal
	cut     int  // how many lines of the composer are shown
	blocked bool
	delays  *rand.Rand
	onPaste string // a command for when a paste is complete
	onEnter string // a command for when Enter was read
	onESC   string
}

func runProgram(socket string) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Println("no test:", err)
		os.Exit(1)
	}
	p := &program{out: json.NewEncoder(conn), cut: 40}
	setRaw(true, unix.TCSETSF)
	fmt.Print("\x1b[?2004h")
	p.draw()
	p.tell("ready", "")

	p.commands = make(chan string)
	go func() {
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			p.commands <- lines.Text()
		}
		os.Exit(0) // the test is over
	}()
	readable, next := make(chan struct{}), make(chan struct{})
	go func() {
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, -1); err == unix.EINTR {
				continue
			}
			readable <- struct{}{}
			<-next
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		in := readable
		if p.blocked {
			in = nil
		}
		select {
		case c := <-p.commands:
			p.do(c)
			p.tell("did", c)
		case <-in:
			if p.delays != nil {
				time.Sleep([]time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond}[p.delays.IntN(3)])
			}
			if p.flush {
				setRaw(true, unix.TCSETSF) // what was not read is lost
				p.tell("flushed", "")
			} else {
				n, err := os.Stdin.Read(buf)
				if err != nil {
					os.Exit(0)
				}
				p.read(buf[:n])
			}
			next <- struct{}{}
		}
	}
}

func (p *program) tell(what, data string) { _ = p.out.Encode(event{what, []byte(data)}) }

// do is one command.
func (p *program) do(command string) {
	name, rest, _ := strings.Cut(command, " ")
	switch name {
	case "block":
		p.blocked = true
	case "unblock":
		p.blocked = false
	case "busy":
		p.busy = true
	case "idle":
		p.busy = false
	case "draft":
		p.draft = rest
	case "stash":
		p.stash = rest
	case "nostash":
		p.nostash = true
	case "late": // another command, a while later
		time.AfterFunc(700*time.Millisecond, func() { p.commands <- rest })
	case "append":
		p.draft += rest
	case "dialog":
		p.dialog = rest
	case "queue":
		p.queue = true
	case "swallow":
		_, _ = fmt.Sscan(rest, &p.swallow)
	case "deaf":
		p.deaf = true
	case "slow":
		p.slow = true
	case "flush":
		p.flush = true
	case "cut":
		_, _ = fmt.Sscan(rest, &p.cut)
	case "cooked":
		setRaw(false, unix.TCSETS)
	case "plain": // no bracketed paste
		fmt.Print("\x1b[?2004l")
	case "delays":
		var seed uint64
		_, _ = fmt.Sscan(rest, &seed)
		p.delays = rand.New(rand.NewPCG(seed, 0))
	case "paste":
		p.onPaste = rest
	case "enter":
		p.onEnter = rest
	case "escape":
		p.onESC = rest
	case "title":
		fmt.Printf("\x1b]0;%s\x07", rest)
	case "exit":
		setRaw(false, unix.TCSETS)
		fmt.Print("\x1b[2J\x1b[H\x1b[?2004l")
		p.tell("end", "")
		os.Exit(0)
	default:
		p.tell("unknown", command)
	}
	p.draw()
}

// read handles the bytes of one read. An Enter that comes with other keys is part of the text, as for real programs.
func (p *program) read(data []byte) {
	p.tell("read", string(data))
	if p.owed {
		p.slow, p.owed = false, false
		p.enter()
	}
	if bytes.Equal(data, []byte("\r")) {
		p.enter()
		p.draw()
		return
	}
	text := string(data)
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b[200~"):
			p.paste, text = true, text[6:]
			continue
		case strings.HasPrefix(text, "\x1b[201~"):
			p.paste, text = false, text[6:]
			p.pastes++
			if n := strings.Count(p.draft, "\n"); n > 1 {
				p.mark, p.after = fmt.Sprintf("[Pasted text #%d +%d lines]", p.pastes, n), len(p.draft)
			}
			p.tell("pasted", p.draft)
			if p.onPaste != "" {
				p.do(p.onPaste)
			}
			continue
		case text[0] == 0x1b:
			p.tell("escape", "")
			p.busy = false
			if p.onESC != "" {
				p.do(p.onESC)
			}
		case text[0] == 's'&0x1f:
			if !p.nostash {
				p.draft, p.stash = "", p.draft
			}
		case text[0] == 3:
			p.tell("ctrl-c", "")
		case text[0] == '\r':
			p.tell("merged", p.draft)
			p.draft += "\n"
		default:
			p.draft += text[:1]
		}
		text = text[1:]
	}
	p.draw()
}

func (p *program) enter() {
	switch {
	case p.slow:
		p.owed = true
		return
	case p.deaf:
		p.tell("lost", "")
	case p.swallow > 0:
		p.swallow--
		p.tell("lost", "")
	case p.dialog != "":
		p.tell("answered", p.dialog)
	case p.draft == "":
		p.tell("empty", "")
	default:
		p.tell("submit", p.draft)
		p.draft, p.stash, p.mark, p.after = p.stash, "", "", 0
	}
	if p.onEnter != "" {
		p.do(p.onEnter)
	}
}

func (p *program) draw() {
	var b strings.Builder
	b.WriteString("\x1b[2J\x1b[H")
	rule := strings.Repeat("─", 80)
	if p.dialog != "" {
		fmt.Fprintf(&b, "%s\r\n  Bash command\r\n\r\n  %s\r\n  ❯ 1. Yes\r\n    2. No\r\n\r\n  Esc to cancel", rule, p.dialog)
		_, _ = io.WriteString(os.Stdout, b.String())
		return
	}
	draft := p.draft
	if p.mark != "" {
		draft = p.mark + p.draft[p.after:]
	}
	draft = strings.Trim(draft, "\n")
	if p.queue && draft == "" {
		draft = "\x1b[2mPress up to edit queued messages\x1b[0m"
	}
	if lines := wrap(draft); p.cut > 0 && len(lines) > p.cut {
		draft = strings.Join(lines[len(lines)-p.cut:], "")
	}
	if p.stash != "" {
		b.WriteString("  › stashed\r\n")
	}
	fmt.Fprintf(&b, "%s\r\n❯\u00a0%s\r\n%s\r\n  ", rule, strings.Join(wrap(draft), "\r\n  "), rule)
	if p.busy {
		b.WriteString("esc to interrupt")
	} else {
		b.WriteString("? for shortcuts")
	}
	_, _ = io.WriteString(os.Stdout, b.String())
}

// wrap breaks lines as a composer does, at fewer columns than the terminal has.
func wrap(text string) []string {
	var lines []string
	for l := range strings.SplitSeq(text, "\n") {
		runes := []rune(l)
		for len(runes) > 78 {
			lines = append(lines, string(runes[:78]))
			runes = runes[78:]
		}
		lines = append(lines, string(runes))
	}
	return lines
}

func setRaw(raw bool, how uint) {
	modes, err := unix.IoctlGetTermios(0, unix.TCGETS)
	if err != nil {
		return
	}
	const local, input = unix.ICANON | unix.ECHO | unix.ISIG | unix.IEXTEN, unix.ICRNL | unix.IXON
	if raw {
		modes.Lflag &^= local
		modes.Iflag &^= input
		modes.Cc[unix.VMIN], modes.Cc[unix.VTIME] = 1, 0
	} else {
		modes.Lflag |= local
		modes.Iflag |= input
	}
	_ = unix.IoctlSetTermios(0, how, modes)
}
