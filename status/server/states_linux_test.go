package server

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/teams"
)

// What the lead's process and recorded turns say is in the snapshots at once, and
// /status says the same.
func TestWordsFromProcessesAndTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, team := range []string{older, newer} {
		if err := os.RemoveAll(w.Path(team, "inboxes")); err != nil {
			t.Fatal(err)
		}
	}
	r := w.start(t, func(s *Server) { s.core.Tick = 20 * time.Millisecond })
	e := r.listen(t, "", "")
	until := func(team, want string, members ...string) {
		t.Helper()
		are := func(list []api.Status) bool {
			return !slices.ContainsFunc(list, func(s api.Status) bool {
				return s.Team == team && slices.Contains(members, s.Member) && strings.TrimSpace(s.Basis+": "+s.Word+" "+s.Why) != want
			})
		}
		e.until(api.EventSnapshot, func(ev event) bool { return are(as[api.Snapshot](t, ev).Status) })
		if list := get[[]api.Status](t, r, "/v1/teams/"+team+"/status"); !are(list) {
			t.Errorf("%v of %s: %q in the snapshot, but not in %+v", members, team, want, list)
		}
	}
	until(older, "team: unknown nothing was heard from it yet", "worker")

	a := r.worker(t, older)
	a.at = time.Now().UTC().Add(-time.Minute)
	a.says(startTurn, startTool)
	until(older, "turn: working", "worker")
	a.says(endTool, endTurn)
	until(older, "turn: idle", "worker")

	lead := exec.Command("sleep", "1000")
	if err := lead.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lead.Process.Kill(); _ = lead.Wait() })
	folder := filepath.Join(w.Root.Path(), "sessions")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	session, start := leadOf(t, w.Path(newer, "config.json"), lead.Process.Pid)
	e.until(api.EventSnapshot, func(ev event) bool {
		return slices.ContainsFunc(as[api.Snapshot](t, ev).Teams, func(team api.Team) bool { return team.Team == newer && team.LeadState == "alive" })
	})
	began := time.Now().UnixMilli()
	saysAt := func(after int64, fields string) {
		t.Helper()
		data := fmt.Sprintf(`{"pid":%d,"sessionId":%q,"procStart":%q,"startedAt":1,"kind":"interactive",%s,"statusUpdatedAt":%d}`,
			lead.Process.Pid, session, start, fields, began+after)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(lead.Process.Pid)+".json"), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// atTerminal returns the id of what waits at a terminal; "" if nothing does.
	atTerminal := func() (id string) {
		t.Helper()
		for _, a := range get[[]api.Attention](t, r, "/v1/attention?team="+newer) {
			if a.Kind != api.WaitsTerminal {
				continue
			}
			if id = a.ID; a.Member != "team-lead" || a.Answerable || a.Dismissable || a.Do != "answer it at its terminal" || a.Since == nil {
				t.Errorf("at the terminal: %+v", a)
			}
		}
		return id
	}
	saysAt(0, `"status":"busy"`)
	until(newer, "process: working", "team-lead")
	if id := atTerminal(); id != "" {
		t.Errorf("%s waits", id)
	}
	saysAt(1, `"status":"waiting","waitingFor":"permission prompt"`)
	until(newer, "process: waiting for you permission prompt", "team-lead")
	first := atTerminal()
	saysAt(1, `"status":"waiting","waitingFor":"input needed"`)
	until(newer, "process: waiting for you input needed", "team-lead")
	if id := atTerminal(); first == "" || id != first {
		t.Errorf("waits under %q, and then under %q", first, id)
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(folder, hourAgo, hourAgo); err != nil { // no process has just started
		t.Fatal(err)
	}
	saysAt(2, `"status":"idle"`)
	until(newer, "process: idle", "team-lead")
	if id := atTerminal(); id != "" {
		t.Errorf("%s still waits", id)
	}
	// The file is written in place: once it was empty, its content is still noticed.
	if err := os.Truncate(filepath.Join(folder, fmt.Sprint(lead.Process.Pid)+".json"), 0); err != nil {
		t.Fatal(err)
	}
	e.until(api.EventSnapshot, func(ev event) bool {
		return slices.ContainsFunc(as[api.Snapshot](t, ev).Status, func(s api.Status) bool {
			return s.Team == newer && s.Member == "team-lead" && s.Basis != api.BasisProcess
		})
	})
	saysAt(3, `"status":"waiting","waitingFor":"input needed"`)
	until(newer, "process: waiting for you input needed", "team-lead")
	if id := atTerminal(); id == "" || id == first {
		t.Errorf("waits again under %q, and before under %q", id, first)
	}
	saysAt(4, `"status":"idle"`)
	until(newer, "process: idle", "team-lead", "worker")
	if err := lead.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = lead.Wait()
	until(newer, "team: ended the team's lead is not running", "team-lead", "worker")
	if list := get[[]api.Attention](t, r, "/v1/attention?team="+newer); !slices.ContainsFunc(list, func(a api.Attention) bool { return a.Kind == api.WaitsEnded && a.Dismissable }) {
		t.Errorf("nothing waits because the lead is gone: %+v", list)
	}
}

// leadOf makes a process the lead of a team, and returns its session and when it started.
func leadOf(t *testing.T, path string, pid int) (session, start string) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	start = strings.Fields(rest)[19]
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	c["leadProcess"] = map[string]any{"pid": pid, "pidSpace": host + "#" + space, "claimedAt": 1, "procStart": start}
	if data, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := (&teams.LeadProcess{PID: pid, PidSpace: host + "#" + space, ProcStart: start}); p.Liveness() != teams.Alive {
		t.Fatalf("the process is %v", p.Liveness())
	}
	return c["leadSessionId"].(string), start
}

// Teams are read again if more happened since they were read than is read one by one.
func TestFarBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.RemoveAll(w.Path(older, "inboxes")); err != nil { // turns alone decide
		t.Fatal(err)
	}
	r := w.start(t, func(s *Server) { s.core.Behind = 2 })
	e := r.listen(t, "", "")
	working := func(want bool) {
		t.Helper()
		e.until(api.EventSnapshot, func(ev event) bool {
			return want == slices.ContainsFunc(as[api.Snapshot](t, ev).Status, func(s api.Status) bool {
				return s.Team == older && s.Member == "worker" && s.Word == api.WordWorking && s.Basis == api.BasisTurn
			})
		})
	}
	working(false)
	a := r.worker(t, older)
	a.at = time.Now().UTC().Add(-time.Minute)
	a.says(startTurn, startTool, endTool, startTool)
	working(true)
}
