package demo

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/teams/transcript"
)

// session lists a session that is in no team and writes to it.
func (d *demonstration) session(ctx context.Context) error {
	const maxSocket = 107 // bytes of the path of a socket
	if len(filepath.Join(d.dir, "socks", "4194304.sock")) > maxSocket {
		d.say("a session in no team is left out: the path of its socket would be too long")
		return nil
	}
	const id, name, text = "5e55104e-0000-4000-8000-000000000001", "docs-7b", "the release is planned for Friday"
	end, err := d.startSession(id, name)
	if err != nil {
		return err
	}
	defer end()
	list, err := d.local.Sessions(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(s api.Session) bool { return s.Name == name })
	if i < 0 || list[i].Way != api.WaySession {
		return fmt.Errorf("the session %s is not among those that can be written to: %+v", name, list)
	}
	d.say("%s is there: a session in no team (simulated), %s, which listens on a socket", name, list[i].Word)
	sentAt := time.Now()
	s, err := d.local.Send(bridge.WithPerson(ctx), api.TeamSessions, name, "", api.NewMessage{Text: text})
	if err == nil {
		d.say("→ %s  %q", name, text)
		_, err = d.local.Await(ctx, s, api.Seen, 10*time.Second)
	}
	if err != nil {
		return err
	}
	given, err := d.given(id)
	if err != nil {
		return err
	}
	if len(given) != 1 || !strings.Contains(given[0], "\n"+text+"\n") {
		return fmt.Errorf("the session %s was given %q", name, given)
	}
	d.told = len(given)
	d.say("  its model was given it, as its transcript shows after %.0f ms", ms(sentAt))
	return nil
}

// startSession starts the process of a session. It ends with this process at the latest.
func (d *demonstration) startSession(id, name string) (end func(), err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, id, name)
	cmd.Dir, cmd.Env, cmd.Stderr = d.dir, d.environment(playsSession), os.Stderr
	if _, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end = func() { _, _ = cmd.Process.Kill(), cmd.Wait() }
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		end()
		return nil, fmt.Errorf("the session %s says %q: %w", name, line, err)
	}
	return end, nil
}

// playSession is the process of a session, until the end of stdin. It takes each message from its socket at once.
func playSession(claude string) error {
	id, name, pid := os.Args[1], os.Args[2], os.Getpid()
	path, err := transcriptOf(claude, id)
	if err != nil {
		return err
	}
	dir := filepath.Dir(claude)
	socket := filepath.Join(dir, "socks", strconv.Itoa(pid)+".sock")
	_, start, err := thisProcess()
	if err != nil {
		return err
	}
	for _, d := range []string{filepath.Dir(socket), filepath.Join(claude, "sessions")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	const token = "demo"
	sum := sha256.Sum256([]byte(socket))
	key := filepath.Join(claude, "sessions", strconv.Itoa(pid)+"."+hex.EncodeToString(sum[:])+".key")
	if err := os.WriteFile(key, encoded(object{"peerToken": token}), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(transcript.ProcessFile(claude, pid), encoded(object{
		"pid": pid, "sessionId": id, "cwd": dir, "startedAt": time.Now().UnixMilli(), "procStart": start, "version": version, "kind": "interactive",
		"entrypoint": "cli", "messagingSocketPath": socket, "name": name, "status": "idle",
	}), 0o600); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println("ready")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		data, _ := io.ReadAll(c)
		_ = c.Close()
		var auth struct{ Token string }
		var m struct {
			ID      string `json:"msg_id"`
			Type    string
			Message struct{ Content string }
		}
		first, second, _ := strings.Cut(string(data), "\n")
		if json.Unmarshal([]byte(first), &auth) != nil || auth.Token != token || json.Unmarshal([]byte(second), &m) != nil || m.Type != "user" {
			continue
		}
		for _, record := range []object{
			{"type": "queue-operation", "operation": "enqueue", "content": m.Message.Content},
			{"type": "user", "isMeta": true, "origin": object{"kind": "peer", "msg_id": m.ID}, "message": object{"content": m.Message.Content}},
			{"type": "assistant", "message": object{"id": m.ID, "stop_reason": "end_turn", "content": []object{{"type": "text", "text": "noted"}}}},
		} {
			record["timestamp"] = now()
			if err := appendTo(path, record); err != nil {
				return err
			}
		}
	}
}
