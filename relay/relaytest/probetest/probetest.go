// Package probetest simulates a Claude Code by CONTRACT.md, for the tests of probes. It behaves like a known version,
// except for one point.
package probetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/probe"
	"teambridge/relay/process"
	"teambridge/relay/relaytest/claudedir"
	"teambridge/teams"
)

// Main runs the program as a Claude Code, and exits, if the arguments are those of [Command].
func Main() {
	if len(os.Args) > 1 && os.Args[1] == argument {
		Run(os.Args[2:])
		os.Exit(0)
	}
}

const argument = "probetest"

// Command returns the command of a program that calls [Main]: a Claude Code of a version. changed is the name of a
// point, or Hangs.
func Command(v, changed string) []string { return []string{os.Args[0], argument, v, changed} }

// Hangs is the change of a program that never does anything, ignores SIGTERM, and leaves a process behind.
const Hangs = "hangs"

// Run runs a Claude Code; args has its version, the change, and its arguments.
func Run(args []string) {
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "probetest: which version, and what is changed?")
		os.Exit(2)
	}
	v, err := teams.ParseVersion(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	newFake(v, args[1], args[2:]).run()
}

// fake is a Claude Code.
type fake struct {
	v       teams.Version
	changed string
	points  map[string]bool // whether each is true
	args    []string
	root    string
	cwd     string
	session string
	fresh   bool // the session is not resumed

	mu    sync.Mutex // of files, and of the fields below
	out   sync.Mutex
	team  string
	known map[string]bool // uuids of frames
	first string          // system prompt of the session's first process
	mode  string
	queue []frame
	more  chan struct{}
	stop  context.CancelFunc // of the running turn
}

type frame struct {
	Type, UUID string
	Message    struct{ Content string }
	ID         string `json:"request_id"`
	Request    struct{ Subtype, Mode string }
}

type object = claudedir.Object

func newFake(v teams.Version, changed string, args []string) *fake {
	cwd, _ := os.Getwd()
	points := map[string]bool{}
	for _, p := range probe.Points() {
		points[p.Name] = (p.Expected(v) == probe.Yes) != (p.Name == changed)
	}
	return &fake{
		v: v, changed: changed, points: points, args: args, root: os.Getenv("CLAUDE_CONFIG_DIR"), cwd: cwd, session: uuid.NewString(), fresh: true,
		known: map[string]bool{}, mode: "default", more: make(chan struct{}, 1000),
	}
}

// does reports whether a point is true for this one.
func (f *fake) does(point string) bool {
	is, ok := f.points[point]
	if !ok {
		panic(point)
	}
	return is
}

func (f *fake) flag(name string) string {
	if i := slices.Index(f.args, name); i >= 0 && i+1 < len(f.args) {
		return f.args[i+1]
	}
	return ""
}

func (f *fake) run() {
	switch {
	case slices.Contains(f.args, "--version"):
		fmt.Printf("%s (Claude Code)\n", f.v)
	case f.changed == Hangs:
		// And a child in a group of its own.
		child := exec.Command("sleep", "600")
		process.OwnGroup(child)
		_ = child.Start()
		signal.Ignore(syscall.SIGTERM)
		select {}
	case slices.Contains(f.args, "-p"):
		f.headless()
	default:
		f.terminal()
	}
}

// ---- the model

// convo is a conversation with the model.
type convo struct {
	f        *fake
	agent    string // empty for the session's own
	system   string
	path     string // of the transcript
	messages []object
}

func (f *fake) conversation(agent, system string) *convo {
	path := claudedir.Transcript(f.root, f.cwd, f.session)
	if agent != "" {
		path = filepath.Join(strings.TrimSuffix(path, ".jsonl"), "subagents", "agent-a"+agent+".jsonl")
	}
	return &convo{f: f, agent: agent, system: system, path: path}
}

// note appends a record to the transcript.
func (c *convo) note(r object) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	r["version"], r["sessionId"], r["timestamp"] = c.f.v.String(), c.f.session, claudedir.Now()
	_ = claudedir.Append(c.path, r)
}

// turn gives texts to the model, runs its tools, and returns its last answer.
func (c *convo) turn(ctx context.Context, texts ...string) (string, error) {
	var content []object
	for _, t := range texts {
		content = append(content, object{"type": "text", "text": t})
	}
	c.messages = append(c.messages, object{"role": "user", "content": content})
	for {
		body, _ := json.Marshal(object{"model": "m", "system": c.system, "messages": c.messages, "tools": []object{{"name": "SendMessage"}, {"name": "Agent"}}})
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", bytes.NewReader(body))
		req.Header.Set("X-Claude-Code-Session-Id", c.f.session)
		if c.agent != "" {
			req.Header.Set("X-Claude-Code-Agent-Id", c.agent+"@"+c.f.team)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		var said struct {
			Content []struct {
				Type, Text, ID, Name string
				Input                map[string]string
			}
			StopReason string `json:"stop_reason"`
		}
		err = json.NewDecoder(resp.Body).Decode(&said)
		resp.Body.Close()
		if err != nil {
			return "", err
		}
		c.messages = append(c.messages, object{"role": "assistant", "content": said.Content})
		c.note(object{"type": "assistant", "uuid": uuid.NewString(), "message": object{"stop_reason": said.StopReason}})
		text := ""
		var results []object
		for _, b := range said.Content {
			text += b.Text
			if b.Type == "tool_use" {
				results = append(results, object{"type": "tool_result", "tool_use_id": b.ID, "content": c.f.tool(ctx, c.agent, b.Name, b.Input)})
			}
		}
		if results == nil {
			c.stopHook()
			return text, nil
		}
		c.messages = append(c.messages, object{"role": "user", "content": results})
	}
}

func (c *convo) stopHook() {
	if c.agent != "" || !c.f.does("RunsStopHook") {
		return
	}
	var s struct {
		Hooks map[string][]struct{ Hooks []struct{ Command string } }
	}
	data, _ := os.ReadFile(filepath.Join(c.f.root, "settings.json"))
	_ = json.Unmarshal(data, &s)
	for _, h := range s.Hooks["Stop"] {
		cmd := exec.Command("/bin/sh", "-c", h.Hooks[0].Command)
		in, _ := json.Marshal(object{"hook_event_name": "Stop", "session_id": c.f.session, "transcript_path": c.path})
		cmd.Stdin = bytes.NewReader(in)
		_ = cmd.Run()
	}
}

func (f *fake) tool(ctx context.Context, agent, name string, in map[string]string) string {
	switch name {
	case "Agent":
		f.spawn(ctx, in["name"], in["prompt"])
	case "SendMessage":
		from := agent
		if from == "" {
			from = f.flag("--agent-name")
		}
		to := in["to"]
		config, _ := os.ReadFile(f.config())
		switch {
		case f.flag("--agent-name") != "":
			if !f.does("MemberSends") {
				return "no"
			}
		case to == "user":
			if f.does("RefusesUser") {
				return "No agent named 'user' is reachable."
			}
		case !bytes.Contains(config, []byte(`"`+to+`@`)) || !f.does("ReachesJoined"):
			return "no"
		}
		r := object{"from": from, "text": in["message"], "summary": in["summary"], "timestamp": claudedir.Now(), "read": false}
		if f.does("TagsRows") {
			r["msg_id"] = uuid.NewString()
		}
		f.append(to, r)
	}
	return "ok"
}

// ---- files

func (f *fake) config() string { return filepath.Join(f.root, "teams", f.team, "config.json") }
func (f *fake) inbox(of string) string {
	return filepath.Join(f.root, "teams", f.team, "inboxes", of+".json")
}

func lock(path string) (unlock func()) {
	for os.Mkdir(path+".lock", 0o700) != nil {
		if d, err := os.Stat(path + ".lock"); err == nil && time.Since(d.ModTime()) > 10*time.Second {
			_ = os.Remove(path + ".lock") // its holder has died
			continue
		}
		time.Sleep(2 * time.Millisecond)
	}
	return func() { _ = os.Remove(path + ".lock") }
}

// write replaces an inbox, or writes it in place.
func (f *fake) write(path string, v any) {
	data, _ := json.MarshalIndent(v, "", "  ")
	if !f.does("RenamesInbox") {
		_ = os.WriteFile(path, data, 0o600)
		return
	}
	_ = os.WriteFile(path+".tmp", data, 0o600)
	_ = os.Rename(path+".tmp", path)
}

func rowsIn(path string) []object {
	var rows []object
	data, _ := os.ReadFile(path)
	_ = json.Unmarshal(data, &rows)
	return rows
}

func (f *fake) append(to string, r object) {
	path := f.inbox(to)
	_ = os.MkdirAll(filepath.Dir(path), 0o700)
	if to != "operator" || f.does("TakesLock") {
		defer lock(path)()
	}
	f.write(path, append(rowsIn(path), r))
}

func (f *fake) makeTeam(name string) {
	f.team = name
	_ = os.MkdirAll(filepath.Dir(f.inbox("x")), 0o700)
	c := object{"name": name, "leadSessionId": f.session, "members": []object{{"agentId": "team-lead@" + name, "name": "team-lead"}}}
	if f.does("LeadProcessWritten") {
		c["leadProcess"] = object{"pid": os.Getpid()}
	}
	data, _ := json.Marshal(c)
	_ = os.WriteFile(f.config(), data, 0o600)
}

func (f *fake) spawn(ctx context.Context, name, prompt string) {
	var c struct {
		object
		Members []object `json:"members"`
	}
	func() {
		if f.does("LocksConfig") {
			defer lock(f.config())()
		}
		data, _ := os.ReadFile(f.config())
		_ = json.Unmarshal(data, &c.object)
		_ = json.Unmarshal(data, &c)
		if !f.does("KeepsJoined") {
			c.Members = slices.DeleteFunc(c.Members, func(m object) bool { return m["name"] == "operator" })
		}
		c.object["members"] = append(c.Members, object{"agentId": name + "@" + f.team, "name": name, "backendType": "in-process"})
		data, _ = json.Marshal(c.object)
		_ = os.WriteFile(f.config(), data, 0o600)
	}()
	go f.lives(context.WithoutCancel(ctx), f.conversation(name, ""), name, prompt)
}

// lives runs an agent that polls its inbox, after a first prompt.
func (f *fake) lives(ctx context.Context, c *convo, name, prompt string) {
	seen := map[string]bool{}
	texts, mark := []string{prompt}, func() {}
	for {
		text, err := c.turn(ctx, texts...)
		if err != nil {
			return
		}
		mark()
		if c.agent != "" && f.does("TellsIdle") {
			n := object{"type": "idle_notification", "from": name, "timestamp": claudedir.Now(), "idleReason": "available"}
			if f.does("IdleResult") {
				n["result"] = text
			}
			data, _ := json.Marshal(n)
			f.append("team-lead", object{"from": name, "text": string(data), "timestamp": claudedir.Now(), "read": false})
		}
		texts, mark = f.poll(c, name, seen)
	}
}

// poll waits for rows, and takes them, perhaps with mark, after they were delivered.
func (f *fake) poll(c *convo, name string, seen map[string]bool) (texts []string, mark func()) {
	path := f.inbox(name)
	unread := func(r object) bool { return r["read"] != true }
	every := 20 * time.Millisecond
	if c.agent == "" { // messages to the lead can be seen for up to a second, as with the real program
		every = 300 * time.Millisecond
	}
	for {
		time.Sleep(every)
		rows := rowsIn(path)
		if !slices.ContainsFunc(rows, unread) {
			continue
		}
		var unlock func()
		if f.does("MarksFirst") {
			unlock = lock(path)
			rows = rowsIn(path)
		}
		for _, r := range rows {
			id, _ := r["msg_id"].(string)
			from, _ := r["from"].(string)
			text, _ := r["text"].(string)
			drop := id != "" && seen[id] && !f.does("RepeatsRows") || from == "user" && !f.does("DeliversRows") || c.agent == "" && !f.does("DeliversToLead")
			if seen[id] = true; unread(r) && !drop && !strings.HasPrefix(text, "{") {
				texts = append(texts, f.shown(c, from, text, r["summary"]))
			}
		}
		mark = func() {
			if unlock == nil {
				unlock = lock(path)
			}
			left := []object{}
			for i, r := range rowsIn(path) {
				if i < len(rows) {
					if f.does("RemovesTaken") {
						continue
					}
					r["read"] = true
				}
				left = append(left, r)
			}
			f.write(path, left)
			unlock()
		}
		if unlock != nil || texts == nil {
			mark()
			mark = func() {}
		}
		if texts != nil {
			return texts, mark
		}
	}
}

// shown returns the form in which the model sees a row, which the transcript records.
func (f *fake) shown(c *convo, from, text string, summary any) string {
	shown := text
	if from != "user" || f.does("WrapsUser") {
		head := fmt.Sprintf("<teammate-message teammate_id=%q", from)
		if s, _ := summary.(string); s != "" {
			if f.does("EscapesGiven") {
				s = strings.ReplaceAll(s, "&", "&amp;")
				text = strings.ReplaceAll(text, "</teammate-message", `<\/teammate-message`)
			}
			head += fmt.Sprintf(" summary=%q", s)
		}
		if from == "team-lead" && f.does("MarksUnverified") {
			head += ` verified="false"`
		}
		shown = head + ">\n" + text + "\n</teammate-message>"
	}
	if f.does("RecordsGiven") {
		c.note(object{"type": "user", "uuid": uuid.NewString(), "message": object{"content": strings.ReplaceAll(shown, "\n", " ")}})
	}
	return shown
}

// record writes the file of the process.
func (f *fake) record(socket string) {
	r := object{"pid": os.Getpid(), "sessionId": f.session, "startedAt": time.Now().UnixMilli(), "kind": "interactive"}
	headless := slices.Contains(f.args, "-p")
	if headless && !f.does("NamesSession") {
		r["sessionId"] = uuid.NewString()
	}
	if !headless && f.does("TellsWork") {
		r["status"], r["version"], r["procStart"] = "idle", f.v.String(), "1"
	}
	if socket != "" {
		r["messagingSocketPath"] = socket
	}
	_ = claudedir.WriteProcess(f.root, r)
}

// ---- at a terminal

func (f *fake) terminal() {
	ctx, end := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer end()
	if f.does("TeamAtStart") {
		f.makeTeam("session-" + f.session[:8])
	}
	c := f.conversation("", "")
	socket := ""
	if f.does("SessionSocket") {
		socket = filepath.Join(os.Getenv("TMPDIR"), fmt.Sprintf("%d.s", os.Getpid()))
		if err := claudedir.Listen(f.root, socket, "t", func(lines []string) { f.takes(ctx, c, lines) }); err != nil {
			panic(err)
		}
	}
	f.record(socket)
	go f.lives(ctx, c, "team-lead", f.args[len(f.args)-1])
	<-ctx.Done()
	if f.does("RemovesTeam") {
		_ = os.RemoveAll(filepath.Dir(f.config()))
	}
}

// takes takes the messages of another session.
func (f *fake) takes(ctx context.Context, c *convo, lines []string) {
	for _, line := range lines {
		var m struct {
			Type    string
			ID      string `json:"msg_id"`
			Message struct{ Content string }
		}
		if json.Unmarshal([]byte(line), &m) != nil || m.Type != "user" || !f.does("TakesFromSocket") {
			continue
		}
		c.note(object{"type": "user", "uuid": uuid.NewString(), "origin": object{"kind": "peer", "msg_id": m.ID}})
		other := f.conversation("", "") // c would wait for its turn
		_, _ = other.turn(ctx, m.Message.Content)
	}
}

// ---- headless

func (f *fake) print(o object) {
	f.out.Lock()
	defer f.out.Unlock()
	data, _ := json.Marshal(o)
	_, _ = os.Stdout.Write(append(data, '\n'))
}

func (f *fake) headless() {
	ctx := context.Background()
	system := f.flag("--append-system-prompt")
	if id := f.flag("--session-id"); id != "" && f.does("KeepsID") {
		f.session = id
	}
	if id := f.flag("--resume"); id != "" {
		f.session, f.fresh = id, false
	}
	c := f.conversation("", system)
	f.recall(c)
	if f.team = f.flag("--team-name"); f.team != "" {
		if !f.does("MemberDeaf") {
			go f.lives(ctx, f.conversation("", ""), f.flag("--agent-name"), "hello")
		}
	} else if !f.does("HeadlessDeaf") {
		go func() {
			for {
				time.Sleep(5 * time.Millisecond)
				found, _ := filepath.Glob(filepath.Join(f.root, "teams", "headless", "inboxes", "team-lead.json"))
				if len(found) > 0 {
					f.team = "headless"
					texts, mark := f.poll(c, "team-lead", map[string]bool{})
					_, _ = f.conversation("", "").turn(ctx, texts...)
					mark()
				}
			}
		}()
	}
	f.record("")
	ended := make(chan struct{})
	go func() { defer close(ended); f.work(ctx, c) }()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var in frame
		if json.Unmarshal(lines.Bytes(), &in) != nil {
			os.Exit(1)
		}
		if in.Type == "control_request" {
			f.control(in)
			continue
		}
		f.mu.Lock()
		f.queue = append(f.queue, in)
		f.mu.Unlock()
		f.more <- struct{}{}
	}
	close(f.more)
	<-ended
}

// recall reads the transcript of the session.
func (f *fake) recall(c *convo) {
	data, err := os.ReadFile(c.path)
	for line := range bytes.Lines(data) {
		var r struct{ Frame, System string }
		_ = json.Unmarshal(line, &r)
		if r.System != "" && f.first == "" {
			f.first = r.System
		}
		f.known[r.Frame] = f.does("RunsOnceResumed")
	}
	if err == nil && f.does("KeepsSystemPrompt") {
		c.system = f.first
	}
}

func (f *fake) control(in frame) {
	answer := object{"subtype": "success", "request_id": in.ID}
	switch in.Request.Subtype {
	case "set_permission_mode":
		bad := !slices.Contains([]string{"default", "acceptEdits", "plan", "bypassPermissions"}, in.Request.Mode)
		if bad && f.does("ChecksMode") {
			answer["subtype"] = "error"
		} else if !bad && f.does("SetsMode") {
			f.mu.Lock()
			f.mode = in.Request.Mode
			f.mu.Unlock()
		}
	case "interrupt":
		f.mu.Lock()
		f.stop()
		f.mu.Unlock()
	}
	f.print(object{"type": "control_response", "response": answer})
}

// work runs the frames that come.
func (f *fake) work(ctx context.Context, c *convo) {
	for range f.more {
		f.mu.Lock()
		all := f.queue
		if !f.does("JoinsFrames") && len(all) > 1 {
			all = all[:1]
		}
		f.queue = f.queue[len(all):]
		f.mu.Unlock()
		for len(all) > 0 {
			n := slices.IndexFunc(all, func(in frame) bool { return f.known[in.UUID] && (!f.fresh || f.does("RunsOnce")) })
			if n == 0 {
				f.echo(all[0], false)
				all = all[1:]
				continue
			} else if n < 0 {
				n = len(all)
			}
			f.runs(ctx, c, all[:n])
			all = all[n:]
		}
	}
}

func (f *fake) echo(in frame, run bool) {
	if !f.does("EchoesFrames") {
		return
	}
	o := object{"type": "user", "isReplay": true, "uuid": in.UUID, "session_id": f.session}
	if run && f.does("EchoesTime") {
		o["timestamp"] = claudedir.Now()
	}
	f.print(o)
}

func (f *fake) runs(ctx context.Context, c *convo, all []frame) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f.mu.Lock()
	f.stop = stop
	mode := f.mode
	f.mu.Unlock()
	state := func(s string) {
		for _, in := range all {
			if f.does("Lifecycle") {
				f.print(object{"type": "command_lifecycle", "command_uuid": in.UUID, "state": s})
			}
		}
	}
	begin := func() {
		f.print(object{"type": "system", "subtype": "init", "session_id": f.session, "permissionMode": mode})
	}
	state("started")
	if f.does("BeginsWithInit") {
		begin()
	}
	var texts []string
	for _, in := range all {
		texts = append(texts, in.Message.Content)
		f.known[in.UUID] = true
		id := in.UUID
		if !f.does("RecordsFrames") && f.fresh {
			id = uuid.NewString()
		}
		c.note(object{"type": "user", "uuid": id, "frame": in.UUID, "system": c.system})
	}
	_, err := c.turn(ctx, texts...)
	for _, in := range all {
		f.echo(in, true)
	}
	if !f.does("BeginsWithInit") {
		begin()
	}
	f.print(object{"type": "result", "is_error": err != nil && f.does("InterruptFails")})
	state("completed")
}
