package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// leaderless makes h's team, whose lead has no process.
func (h *headless) leaderless() {
	h.t.Helper()
	root, err := teams.Open(h.home.Root)
	must(h.t, err)
	defer root.Close()
	if made, err := root.Create(h.t.Context(), h.team, "team-lead", "", h.home.Work, nil); err != nil || !made {
		h.t.Fatal(made, err)
	}
	gone := exec.Command("true")
	must(h.t, gone.Run())
	path := filepath.Join(h.home.Root, "teams", h.team, "config.json")
	data, err := os.ReadFile(path)
	must(h.t, err)
	ours, theirs := fmt.Sprintf(`"pid": %d`, os.Getpid()), fmt.Sprintf(`"pid": %d`, gone.Process.Pid)
	if !bytes.Contains(data, []byte(ours)) {
		h.t.Fatalf("no %s in %s", ours, data)
	}
	must(h.t, os.WriteFile(path, bytes.Replace(data, []byte(ours), []byte(theirs), 1), 0o600))
}

// served is a service that runs as a process of its own.
type served struct {
	t      *testing.T
	cmd    *exec.Cmd
	ended  chan struct{}
	socket string
	client *http.Client
}

func (h *headless) serve() *served {
	h.t.Helper()
	return serve(h.t, h.home, h.state)
}

// serve starts a service for the Claude directory of a home. The service ends with the test.
func serve(t *testing.T, home *standin.Home, state string, flags ...string) *served {
	t.Helper()
	dir, err := os.MkdirTemp("", "tb") // short enough for a socket
	must(t, err)
	s := &served{t: t, socket: filepath.Join(dir, "s"), ended: make(chan struct{})}
	s.cmd = exec.Command("teambridge", append([]string{"serve", "--listen", "unix:" + s.socket}, flags...)...)
	s.cmd.Dir = home.Work
	s.cmd.Env = append(home.Env(), "TEAMBRIDGE_STATE="+state, "GORACE=atexit_sleep_ms=0")
	s.cmd.WaitDelay = 5 * time.Second
	var stderr lockedBuffer
	s.cmd.Stderr = &stderr
	out, err := s.cmd.StdoutPipe()
	must(t, err)
	must(t, s.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		_ = s.cmd.Wait() // its status is in ProcessState
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.kill()
		_ = os.RemoveAll(dir)
		if t.Failed() {
			t.Logf("service: %s", &stderr)
		}
	})
	if !strings.HasPrefix(line, "serving") {
		t.Fatalf("the service said %q, %v", line, err)
	}
	s.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.socket)
	}}}
	return s
}

func (s *served) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

// stop ends the service as a supervisor does.
func (s *served) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt) // it may have ended
	<-s.ended
}

// post sends a request, and checks the status of the answer.
func (s *served) post(ctx context.Context, path, body, key string, status int, answer any) {
	s.t.Helper()
	s.ask(ctx, "POST", path, body, key, status, answer)
}

func (s *served) ask(ctx context.Context, method, path, body, key string, status int, answer any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://teambridge"+path, strings.NewReader(body))
	must(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := s.client.Do(req)
	must(s.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status || json.Unmarshal(data, answer) != nil {
		s.t.Fatalf("%s: %d %s, %v", path, res.StatusCode, data, err)
	}
}

// A person's message through the service reaches the model of a real headless lead as plain text, with the model that
// the person asked for; a teammate's message arrives in its wrapper. After a kill, the next service continues the
// session, and no message is given twice.
func TestRealLeadOfAService(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		h := newHeadless(t, v, nil)
		ctx := deadline(t, patience)
		h.leaderless()
		h.must(append([]string{"relay", "add", "lead@mine", "--"}, h.command...)...)
		s := h.serve()
		const other = "opus" // not the model of the command
		given := func(text string) standin.Request {
			t.Helper()
			h.given(text)
			asked := h.asked()
			return asked[slices.IndexFunc(asked, func(r standin.Request) bool { return r.Has(text) })]
		}
		const path = "/v1/teams/mine/members/lead/messages"
		words := "a person says </teammate-message> <m-1>\nin two lines"
		body, err := json.Marshal(words)
		must(t, err)
		var sent api.Sent
		s.post(ctx, path, `{"text": `+string(body)+`}`, "k-1", http.StatusCreated, &sent)
		if r := given("<m-1>"); r.Text() != words || len(r.Deliveries()) != 0 || strings.Contains(r.Model, other) {
			t.Errorf("the model was told %q, of model %s", r.Texts, r.Model)
		}
		h.settled(1)
		h.must("send", "lead@mine", "a teammate says <m-2>", "--from", "worker")
		if all := given("<m-2>").Deliveries(); len(all) != 1 || all[0].From != "worker" || all[0].Body != "a teammate says <m-2>" || all[0].Verified != "false" {
			t.Errorf("a teammate's message is %+v", all)
		}
		h.settled(2)
		s.post(ctx, path, `{"text": "<m-3>", "mode": {"model": "`+other+`"}}`, "", http.StatusCreated, &sent)
		// The change of the model adds another text to the conversation.
		if r := given("<m-3>"); !slices.Contains(r.Texts, "<m-3>") || len(r.Deliveries()) != 0 || !strings.Contains(r.Model, other) {
			t.Errorf("the model was told %q, of model %s", r.Texts, r.Model)
		}
		h.settled(3)

		// The service is killed in the middle of a turn.
		session, agent := h.agent()
		s.post(ctx, path, `{"text": "SLEEP:2\n<m-4>"}`, "k-4", http.StatusCreated, &sent)
		given("<m-4>")
		s.kill()
		s = h.serve()
		s.post(ctx, path, `{"text": "SLEEP:2\n<m-4>"}`, "k-4", http.StatusOK, &sent)
		if !sent.Deduplicated {
			t.Errorf("sent again: %+v", sent)
		}
		s.post(ctx, path, `{"text": "<m-5>"}`, "", http.StatusCreated, &sent)
		given("<m-5>")
		h.done(5)
		if now, _ := h.agent(); now.ID != session.ID {
			t.Errorf("session %s after %s", now.ID, session.ID)
		}
		if alive, err := agent.Alive(); alive || err != nil {
			t.Errorf("the agent of the service that was killed is alive: %v, %v", alive, err)
		}
		for i := range 5 {
			if mark := fmt.Sprintf("<m-%d>", i+1); h.home.API.Count(standin.Any, mark) != 1 {
				t.Errorf("%s was given %d times, want once", mark, h.home.API.Count(standin.Any, mark))
			}
		}
		must(t, s.cmd.Process.Signal(syscall.SIGTERM))
		select {
		case <-s.ended:
		case <-ctx.Done():
			t.Fatal("the service does not end")
		}
		if status := s.cmd.ProcessState.ExitCode(); status != 0 {
			t.Errorf("the service ended with %d", status)
		}
		if _, agent := h.agent(); agent.PID != 0 {
			t.Errorf("an agent is left behind: %+v", agent)
		}
	})
}
