package pane

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/peer"
	"teambridge/relay/tmux"
	"teambridge/teams"
	"teambridge/teams/teamstest"
	"teambridge/teams/transcript"
)

const (
	envSession = "TEST_SESSION" // its Claude directory
	envPeer    = "TEST_PEER"    // directory of the Claude directory and of our state
	envKills   = "TEAMBRIDGE_SESSION_KILLS"
)

// simsession is a session of Claude Code with a socket, in a process of its own that can be killed. It obeys lines on
// its standard input: busy, idle, waiting, hold, drop, deaf, clear, usual.
type simsession struct {
	t     testing.TB
	root  string
	id    string
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

func startSession(t testing.TB, root, id string) *simsession {
	t.Helper()
	s := &simsession{t: t, root: root, id: id}
	s.start()
	return s
}

// start starts its process, which goes on with the session if there was one.
func (s *simsession) start() {
	s.t.Helper()
	s.cmd = exec.Command(os.Args[0], s.id)
	s.cmd.Env = append(os.Environ(), envSession+"="+s.root)
	s.cmd.Stderr = os.Stderr
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd := s.cmd
	s.t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		s.t.Fatalf("the session says %q, %v", line, err)
	}
	s.stdin = stdin
}

func (s *simsession) tell(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.stdin, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *simsession) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.cmd.Wait() // says that it was killed
}

// given returns the texts that models were given, in all transcripts, in order.
func (s *simsession) given() (texts []string) {
	s.t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.root, "projects", "*", "*.jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range paths {
		tail := transcript.Tail{Path: path}
		for line, err := range tail.Lines() {
			if err != nil {
				s.t.Fatal(err)
			}
			if r, ok := transcript.Parse(line); ok && r.Type == "user" && r.Origin.Kind == "peer" {
				lines := strings.Split(transcript.Texts(r.Message.Content, ""), "\n")
				texts = append(texts, strings.Join(lines[1:len(lines)-1], "\n"))
			}
		}
	}
	return texts
}

// program is the process of a session.
type program struct {
	mu     sync.Mutex
	root   string
	record object // sessions/<pid>.json
	path   string // of that
	file   string // its transcript
	queue  []frameIn
	held   []frameIn
	busy   bool
	hold   bool
	deaf   bool
	drops  int
	recent map[string]bool // texts
	from   string          // who wrote last
}

type frameIn struct {
	ID      string `json:"msg_id"`
	Type    string
	From    string
	Token   string
	Message struct{ Content string }
}

func runSession(root string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "session:", err)
			os.Exit(1)
		}
	}
	pid := strconv.Itoa(os.Getpid())
	stat, err := os.ReadFile("/proc/self/stat")
	fail(err)
	start := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[19]
	socket := filepath.Join(filepath.Dir(root), "socks", pid+".sock")
	dir := filepath.Dir(root)
	p := &program{root: root, path: filepath.Join(root, "sessions", pid+".json"), recent: map[string]bool{}}
	p.record = object{
		"pid": os.Getpid(), "sessionId": os.Args[1], "cwd": dir, "startedAt": time.Now().UnixMilli(), "procStart": start, "version": "2.1.330",
		"kind": "interactive", "entrypoint": "cli", "messagingSocketPath": socket, "name": "work", "status": "idle",
	}
	for _, d := range []string{filepath.Dir(socket), filepath.Join(root, "sessions"), filepath.Join(root, "projects", transcript.Slug(dir))} {
		fail(os.MkdirAll(d, 0o700))
	}
	p.transcript(os.Args[1])
	l, err := net.Listen("unix", socket)
	fail(err)
	sum := sha256.Sum256([]byte(socket))
	fail(os.WriteFile(filepath.Join(root, "sessions", pid+"."+hex.EncodeToString(sum[:])+".key"), []byte(`{"peerToken":"secret"}`), 0o600))
	p.save()
	go func() {
		for {
			c, err := l.Accept()
			fail(err)
			data, _ := io.ReadAll(c)
			c.Close()
			p.take(strings.Split(strings.TrimSpace(string(data)), "\n"))
		}
	}()
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		p.obey(in.Text())
	}
}

func (p *program) transcript(session string) {
	p.file = filepath.Join(p.root, "projects", transcript.Slug(filepath.Dir(p.root)), session+".jsonl")
}

func (p *program) save() {
	data, _ := json.Marshal(p.record)
	_ = os.WriteFile(p.path, data, 0o600)
}

func (p *program) write(o object) {
	data, _ := json.Marshal(o)
	f, err := os.OpenFile(p.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = f.Write(append(data, '\n'))
		_ = f.Close()
	}
}

func (p *program) obey(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text, ok := strings.CutPrefix(line, "say "); ok {
		p.connect(p.from, object{
			"msgV": 1, "msg_id": "5a000000-0000-4000-8000-" + fmt.Sprintf("%012x", len(text)), "type": "user",
			"message": object{"role": "user", "content": "<cross-session-message from=\"uds:x\" from-name=\"work\">\n" + text + "\n</cross-session-message>"},
		})
		return
	}
	switch line {
	case "busy":
		p.busy, p.record["status"] = true, "busy"
	case "idle":
		p.busy, p.record["status"] = false, "idle"
		p.turn()
	case "hold":
		p.hold = true
	case "deny", "allow":
		for _, f := range p.held {
			if line == "allow" {
				p.enqueue(f)
				p.tell(f, "delivered", "")
			} else {
				p.tell(f, "denied", "")
			}
		}
		p.held, p.hold, p.record["status"] = nil, false, "idle"
		p.turn()
	case "drop":
		p.drops = 1
	case "deaf":
		p.deaf = true
	case "usual":
		p.deaf = false
	case "clear":
		p.record["sessionId"] = "5e55104e-0000-4000-8000-00000000000c"
		p.transcript("5e55104e-0000-4000-8000-00000000000c")
	}
	p.save()
}

// take takes the lines of a connection.
func (p *program) take(lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var auth, f frameIn
	if len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &auth) != nil || auth.Token != "secret" || json.Unmarshal([]byte(lines[1]), &f) != nil || f.Type != "user" {
		return
	}
	p.from = f.From
	switch {
	case p.deaf:
	case p.hold:
		p.held = append(p.held, f)
		p.record["status"], p.record["waitingFor"] = "waiting", "permission prompt"
		p.save()
		p.tell(f, "held", "")
	case p.drops > 0:
		p.drops--
		p.tell(f, "dropped", "rate-limited")
	case p.recent[f.Message.Content]:
		p.tell(f, "dropped", "duplicate")
	default:
		p.recent[f.Message.Content] = true
		p.enqueue(f)
		if !p.busy {
			p.turn()
		}
	}
}

func (p *program) enqueue(f frameIn) {
	p.queue = append(p.queue, f)
	p.write(queueRecord("enqueue", f.Message.Content))
}

// turn gives the model what is queued.
func (p *program) turn() {
	for _, f := range p.queue {
		p.write(object{"type": "user", "isMeta": true, "origin": object{"kind": "peer", "msg_id": f.ID}, "message": object{"content": f.Message.Content}})
		p.write(assistantRecord(f.ID, "end_turn", "done with "+f.ID))
		p.write(object{"type": "system", "subtype": "turn_duration"})
	}
	p.queue = nil
}

func (p *program) tell(f frameIn, status, reason string) {
	p.connect(f.From, object{"type": "control", "action": "peer_message_status", "orig_msg_id": f.ID, "status": status, "drop_reason": reason, "reason": "as its person says"})
}

func (p *program) connect(to string, o object) {
	c, err := net.Dial("unix", strings.TrimPrefix(to, "uds:"))
	if err != nil {
		return
	}
	defer c.Close()
	data, _ := json.Marshal(o)
	_, _ = c.Write(append(data, '\n'))
}

// sessions are the tests' own panes, with one session.
type sessions struct {
	*Panes
	*simsession
	ledger *ledger.Ledger
	dir    string
}

func newSessions(t testing.TB) *sessions {
	t.Helper()
	dir := teamstest.StateDir(t)
	root := filepath.Join(dir, "claude")
	if err := os.MkdirAll(filepath.Join(root, "teams"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &sessions{dir: dir, simsession: startSession(t, root, session)}
	var err error
	if s.Panes, s.ledger, err = openSessions(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.mailbox.Close(), s.ledger.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openSessions is what a process of ours has, with times that fit the simulated session.
func openSessions(dir string) (*Panes, *ledger.Ledger, error) {
	root, err := teams.Open(filepath.Join(dir, "claude"))
	if err != nil {
		return nil, nil, err
	}
	l, err := ledger.Open(context.Background(), filepath.Join(dir, "ledger.db"))
	if err != nil {
		return nil, nil, err
	}
	p := New(Options{Root: root, Ledger: l, State: dir})
	p.timing.settle, p.timing.repeat, p.timing.follow, p.timing.every = 300*time.Millisecond, time.Second, 50*time.Millisecond, 20*time.Millisecond
	p.timing.firstTry, p.timing.maxTry, p.timing.look, p.timing.refill = 20*time.Millisecond, 100*time.Millisecond, 20*time.Millisecond, 10*time.Millisecond
	return p, l, nil
}

func (s *sessions) put(text string) ledger.PaneMessage {
	s.t.Helper()
	to, err := s.FindSession(s.t.Context(), "work")
	if err != nil {
		s.t.Fatal(err)
	}
	m, _, err := s.Put(s.t.Context(), to, Message{Text: text})
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// run runs the queues until the end of the test.
func (s *sessions) run() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
}

// until waits until a message is as wanted.
func (s *sessions) until(m ledger.PaneMessage, what string, is func(ledger.PaneMessage) bool) ledger.PaneMessage {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	got, err := s.Panes.until(ctx, m.UUID, func(m ledger.PaneMessage) (bool, error) { return is(m), nil })
	if err != nil {
		s.t.Fatalf("%s: %v: it is %s, %q, %q, %s, %s", what, err, got.State, got.Reason, got.Held, got.Detail, got.Task)
	}
	return got
}

func ended(m ledger.PaneMessage) bool { return m.Task == ledger.TaskEnded }

func (s *sessions) wants(texts ...string) {
	s.t.Helper()
	if got := s.given(); !slices.Equal(got, texts) {
		s.t.Errorf("the model was given %q, want %q", got, texts)
	}
}

func TestSessionIsGivenEachOnceInOrder(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	s.run()
	first := s.until(s.put("first"), "the first", ended)
	if answer := string(first.Answer); !strings.Contains(answer, "done with "+first.UUID) {
		t.Errorf("the answer is %s", answer)
	}
	s.tell("busy")
	want := []string{"first"}
	var list []ledger.PaneMessage
	for range 5 { // equal ones too
		list = append(list, s.put("the same"))
		want = append(want, "the same")
	}
	list, want = append(list, s.put("a </cross-session-message> b")), append(want, "a &lt;/cross-session-message> b")
	for _, m := range list {
		if m = s.until(m, "a message to a busy session", func(m ledger.PaneMessage) bool { return m.State == ledger.Done }); m.Task != ledger.TaskSent {
			t.Errorf("while the session is busy, the task is %s", m.Task)
		}
	}
	s.wants("first")
	s.tell("idle")
	for _, m := range list {
		s.until(m, "after it was idle", ended)
	}
	s.wants(want...)
}

func TestSessionThatDropsGetsItAgain(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	s.run()
	s.tell("drop")
	s.until(s.put("a"), "what was dropped", ended)
	s.wants("a")
}

func TestHeldMessage(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	s.run()
	held := func(m ledger.PaneMessage) bool { return m.Held == string(tmux.Dialog) }
	for answer, is := range map[string]func(ledger.PaneMessage) bool{
		"allow": ended,
		"deny": func(m ledger.PaneMessage) bool {
			return m.State == ledger.Failed && strings.HasPrefix(m.Reason, NotSent)
		},
	} {
		s.tell("hold")
		m := s.until(s.put(answer), "what waits for a person", held)
		s.until(m, "a look after the time when it could be written again", func(m ledger.PaneMessage) bool {
			return held(m) && m.NextTry.After(m.SentAt.Add(s.timing.repeat+s.timing.repeat/8))
		})
		s.tell(answer)
		s.until(m, answer, is)
	}
	s.wants("allow")
}

// What a session had in its queue when it was killed is given to the one that goes on with it, and what its model was given
// is not.
func TestKilledSession(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	s.run()
	s.until(s.put("before"), "before", ended)
	s.tell("busy")
	queued := s.put("queued")
	s.until(queued, "queued", func(m ledger.PaneMessage) bool { return m.Task == ledger.TaskSent })
	s.kill()
	s.until(queued, "after the kill", func(m ledger.PaneMessage) bool { return m.State == ledger.Claimed && m.Held == string(tmux.Gone) })
	later := s.put("later")
	s.start()
	s.until(queued, "after it was resumed", ended)
	s.until(later, "what came while nobody was there", ended)
	s.wants("before", "queued", "later")
}

// A session that was resumed at once has not what the process before it had.
func TestSessionResumedAtOnce(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	s.tell("busy")
	m, err := s.Deliver(t.Context(), s.put("queued").UUID)
	if err != nil || m.Task != ledger.TaskSent {
		t.Fatalf("it is %s, %v", m.Task, err)
	}
	s.kill()
	s.start()
	if _, err := s.Deliver(t.Context(), s.put("next").UUID); err != nil {
		t.Fatal(err)
	}
	s.wants("queued", "next")
}

func TestClearedSessionStaysTheMember(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	s.tell("busy")
	m, err := s.Deliver(t.Context(), s.put("queued").UUID)
	if err != nil {
		t.Fatal(err)
	}
	given := make(chan ledger.PaneMessage, 1)
	go func() {
		m, err := s.AwaitGiven(t.Context(), m.UUID)
		if err != nil {
			t.Error(err)
		}
		given <- m
	}()
	s.tell("clear")
	select {
	case m := <-given:
		t.Errorf("before the session is idle it is %s", m.Task)
	default:
	}
	s.tell("idle")
	if m := <-given; m.Task != ledger.TaskGiven && m.Task != ledger.TaskEnded {
		t.Errorf("after it was given it is %s", m.Task)
	}
	s.run()
	s.until(m, "after /clear", ended)
	if next := s.until(s.put("next"), "the next", ended); next.InboxKey != m.InboxKey {
		t.Errorf("after /clear it is %v, and was %v", next.InboxKey, m.InboxKey)
	}
	s.wants("queued", "next")
	s.kill()
	s.until(s.put("later"), "a look after the kill", func(m ledger.PaneMessage) bool { return m.Held == string(tmux.Gone) })
	if m, err = s.Message(t.Context(), m.UUID); err != nil || m.State != ledger.Done {
		t.Errorf("after the end of the process it is %s, %v", m.State, err)
	}
}

// A session that shows nothing of a message is sent it once more, and then it is said.
func TestDeafSession(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	s.run()
	s.tell("deaf")
	m := s.until(s.put("a"), "what nothing is heard of", func(m ledger.PaneMessage) bool { return m.State.Ended() })
	if m.State != ledger.Failed || !strings.HasPrefix(m.Reason, Unknown) {
		t.Errorf("it is %s: %s", m.State, m.Reason)
	}
	s.tell("usual")
	s.until(s.put("b"), "the next", ended)
	s.wants("b")
}

func TestSessionsByName(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	other := startSession(t, s.root, "5e55104e-0000-4000-8000-000000000002")
	pid := strconv.Itoa(s.cmd.Process.Pid)
	for _, name := range []string{session, pid} {
		if of, err := s.FindSession(t.Context(), name); err != nil || of.Ref.ID != session {
			t.Errorf("%s: %+v, %v", name, of, err)
		}
	}
	for _, name := range []string{"work", filepath.Dir(s.root), session[:10]} {
		if _, err := s.FindSession(t.Context(), name); err == nil || !strings.Contains(err.Error(), "2 sessions") {
			t.Errorf("%s: %v, want that two have it", name, err)
		}
	}
	if _, err := s.FindSession(t.Context(), "nobody"); !errors.As(err, new(*SessionError)) {
		t.Errorf("a name that none has: %v", err)
	}
	for _, id := range []string{other.id, session} { // both are recorded, under names of their own
		of, err := s.FindSession(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Put(t.Context(), of, Message{Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{}
	list, err := s.KnownSessions(t.Context())
	for _, of := range list {
		names = append(names, of.Inbox)
	}
	if err != nil || !slices.Equal(names, []string{"work", "work-5e55"}) {
		t.Errorf("they are called %q, %v", names, err)
	}
}

// runPeer runs the queues until it is killed.
func runPeer(dir string) {
	p, _, err := openSessions(dir)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		fmt.Println("ready")
		err = p.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

// Whoever is killed at whatever moment: a session gets each message once, in one of its processes.
func TestKilledSessionsAndSenders(t *testing.T) {
	t.Parallel()
	kills := 24
	if n, err := strconv.Atoi(os.Getenv(envKills)); err == nil {
		kills = n
	} else if testing.Short() {
		kills = 8
	}
	s := newSessions(t)
	sender := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), envPeer+"="+s.dir), os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		return cmd
	}
	ours := sender()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	var list []ledger.PaneMessage
	n := 0
	for killed := 0; killed < kills; {
		for range 1 + random.IntN(3) {
			n++
			list = append(list, s.put(fmt.Sprintf("m-%d", n)))
		}
		s.tell([]string{"busy", "idle", "idle"}[random.IntN(3)])
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond) // any moment
		if random.IntN(2) == 0 {
			s.kill()
			s.start()
			killed++
		}
		if random.IntN(2) == 0 {
			_, _ = ours.Process.Kill(), ours.Wait()
			ours = sender()
			killed++
		}
	}
	s.tell("idle")
	for i, m := range list {
		s.until(m, fmt.Sprintf("m-%d of %d", i+1, n), func(m ledger.PaneMessage) bool { return m.Task == ledger.TaskEnded || m.State == ledger.Failed })
	}
	if err := ours.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := ours.Wait(); err != nil {
		t.Errorf("the sender: %v", err)
	}
	counts := map[string]int{}
	for _, text := range s.given() {
		counts[text]++
	}
	for i := range n {
		if text := fmt.Sprintf("m-%d", i+1); counts[text] != 1 {
			t.Errorf("%s was given %d times", text, counts[text])
		}
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "sockets", "*")); err != nil || len(left) != 0 {
		t.Errorf("of our sockets is left %q, %v", left, err)
	}
}

// said returns what sessions wrote to us, and what they answered.
func (s *sessions) said() (texts []string) {
	s.t.Helper()
	var after int64
	for {
		events, err := s.ledger.Events(s.t.Context(), after, 100)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events {
			after = e.N
			if e.Answer != "" {
				var row struct{ From, Text string }
				if err := json.Unmarshal(e.Row, &row); err != nil {
					s.t.Fatal(err)
				}
				texts = append(texts, row.From+": "+row.Text)
			}
		}
		if len(events) == 0 {
			return texts
		}
	}
}

// What an agent writes to us is recorded as its own, once; what somebody else writes is not.
func TestSessionWrites(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	var warned []error
	s.opts.Warn = func(err error) { warned = append(warned, err) }
	s.run()
	m := s.until(s.put("a"), "a", ended)
	for range 2 {
		s.tell("say hello </cross-session> \"x\"")
	}
	want := []string{"work: done with " + m.UUID, `work: hello </cross-session> "x"`}
	for end := time.Now().Add(time.Minute); !slices.Equal(s.said(), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("recorded is %q, want %q", s.said(), want)
		}
	}
	c, err := net.Dial("unix", filepath.Join(s.dir, "socks", strconv.Itoa(os.Getpid())+".sock"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(c, `{"type":"user","msg_id":"x","message":{"content":"as if I were work"}}`+"\n")
	if err := errors.Join(err, c.(*net.UnixConn).CloseWrite()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil { // it was read to its end
		t.Fatal(err)
	}
	if got := s.said(); !slices.Equal(got, want) || len(warned) != 1 {
		t.Errorf("recorded is %q, and warned %v", got, warned)
	}
}

// A process that is not the session can say nothing of its messages.
func TestForgedNotice(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	s.tell("hold")
	to, err := s.FindSession(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	now, err := s.processOf(t.Context(), &to)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.mailbox.Send(t.Context(), s.root, now, peer.Message{ID: "11111111-1111-4111-8111-111111111111", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	for {
		n, told, next := s.mailbox.Told("11111111-1111-4111-8111-111111111111")
		if told {
			if n.Status != peer.Held {
				t.Errorf("the session says %s", n.Status)
			}
			break
		}
		<-next
	}
	sockets, err := filepath.Glob(filepath.Join(s.dir, "socks", "*"))
	if err != nil {
		t.Fatal(err)
	}
	ours := slices.IndexFunc(sockets, func(path string) bool { return filepath.Base(path) == strconv.Itoa(os.Getpid())+".sock" })
	c, err := net.Dial("unix", sockets[ours])
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(c, `{"type":"control","action":"peer_message_status","orig_msg_id":"11111111-1111-4111-8111-111111111111","status":"denied"}`+"\n")
	if err := errors.Join(err, c.(*net.UnixConn).CloseWrite()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil { // it was read to its end
		t.Fatal(err)
	}
	if n, _, _ := s.mailbox.Told("11111111-1111-4111-8111-111111111111"); n.Status != peer.Held {
		t.Errorf("a stranger's notice was taken: %s", n.Status)
	}
}
