package bridge_test

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
	"teambridge/status/service"
	"teambridge/teams"
)

// The state of the lead's process and recorded turns are in the snapshots at once, and Status agrees. An item
// at a terminal keeps its id for as long as it waits.
func TestWordsFromProcessesAndTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, team := range []string{older, newer} {
		w.must(os.RemoveAll(w.Path(team, "inboxes")))
	}
	w.start()
	e := w.events("", "")
	shows := func(team, want string, members ...string) {
		t.Helper()
		are := func(list []api.Status) bool {
			return !slices.ContainsFunc(list, func(s api.Status) bool {
				return s.Team == team && slices.Contains(members, s.Member) && strings.TrimSpace(s.Basis+": "+s.Word+" "+s.Why) != want
			})
		}
		e.shows(func(s *api.Snapshot) bool { return are(s.Status) })
		if list, err := w.s.Status(w.ctx, team); err != nil || !are(list) {
			t.Errorf("%v of %s: %q in the snapshot, but not in %+v, %v", members, team, want, list, err)
		}
	}
	shows(older, "team: unknown nothing was heard from it yet", "worker")
	a := w.worker(older)
	a.at = time.Now().UTC().Add(-time.Minute)
	a.says(startTurn, startTool)
	shows(older, "turn: working", "worker")
	a.says(endTool, endTurn)
	shows(older, "turn: idle", "worker")

	lead := exec.Command("sleep", "1000")
	w.must(lead.Start())
	t.Cleanup(func() { _ = lead.Process.Kill(); _ = lead.Wait() })
	folder := filepath.Join(w.Root.Path(), "sessions")
	w.must(os.MkdirAll(folder, 0o700))
	session, start := leadOf(t, w.Path(newer, "config.json"), lead.Process.Pid)
	e.shows(func(s *api.Snapshot) bool {
		return slices.ContainsFunc(s.Teams, func(team api.Team) bool { return team.Team == newer && team.LeadState == "alive" })
	})
	began, file := time.Now().UnixMilli(), filepath.Join(folder, fmt.Sprint(lead.Process.Pid)+".json")
	saysAt := func(after int64, fields string) {
		t.Helper()
		w.must(os.WriteFile(file, fmt.Appendf(nil, `{"pid":%d,"sessionId":%q,"procStart":%q,"startedAt":1,"kind":"interactive",%s,"statusUpdatedAt":%d}`,
			lead.Process.Pid, session, start, fields, began+after), 0o600))
	}
	// atTerminal returns the id of the item that waits at a terminal; "" if there is none.
	atTerminal := func() (id string) {
		t.Helper()
		list, err := w.s.Attention(w.ctx, newer)
		w.must(err)
		for _, a := range list {
			if a.Kind != api.WaitsTerminal {
				continue
			}
			if id = a.ID; a.Member != "team-lead" || a.Answerable || a.Dismissable || a.Do != "answer it at its terminal" || a.Since == nil {
				t.Errorf("at the terminal: %+v", a)
			}
		}
		return id
	}
	const waiting = "process: waiting for you input needed"
	saysAt(0, `"status":"busy"`)
	shows(newer, "process: working", "team-lead")
	if id := atTerminal(); id != "" {
		t.Errorf("%s waits", id)
	}
	saysAt(1, `"status":"waiting","waitingFor":"permission prompt"`)
	shows(newer, "process: waiting for you permission prompt", "team-lead")
	first := atTerminal()
	saysAt(1, `"status":"waiting","waitingFor":"input needed"`)
	shows(newer, waiting, "team-lead")
	if id := atTerminal(); first == "" || id != first {
		t.Errorf("waits under %q, and then under %q", first, id)
	}
	hourAgo := time.Now().Add(-time.Hour)
	w.must(os.Chtimes(folder, hourAgo, hourAgo)) // no process has just started
	saysAt(2, `"status":"idle"`)
	shows(newer, "process: idle", "team-lead")
	if id := atTerminal(); id != "" {
		t.Errorf("%s still waits", id)
	}
	// The file is written in place: once it was empty, its content is still noticed.
	w.must(os.Truncate(file, 0))
	e.shows(func(s *api.Snapshot) bool {
		return slices.ContainsFunc(s.Status, func(s api.Status) bool {
			return s.Team == newer && s.Member == "team-lead" && s.Basis != api.BasisProcess
		})
	})
	saysAt(3, `"status":"waiting","waitingFor":"input needed"`)
	shows(newer, waiting, "team-lead")
	if id := atTerminal(); id == "" || id == first {
		t.Errorf("waits again under %q, and before under %q", id, first)
	}
	saysAt(4, `"status":"idle"`)
	shows(newer, "process: idle", "team-lead", "worker")
	w.must(lead.Process.Kill())
	_ = lead.Wait() // it was killed
	shows(newer, "team: ended the team's lead is not running", "team-lead", "worker")
	if list, err := w.s.Attention(w.ctx, newer); err != nil || !slices.ContainsFunc(list, func(a api.Attention) bool { return a.Kind == api.WaitsEnded && a.Dismissable }) {
		t.Errorf("nothing waits because the lead is gone: %+v, %v", list, err)
	}
}

// leadOf makes a process the lead of a team, and returns its session and when it started.
func leadOf(t *testing.T, path string, pid int) (session, start string) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	start = strings.Fields(rest)[19]
	config := editConfig(t, path, func(c map[string]any) { c["leadProcess"] = leadProcess(t, pid, start) })
	if p := (&teams.LeadProcess{PID: pid, PidSpace: leadProcess(t, pid, start)["pidSpace"].(string), ProcStart: start}); p.Liveness() != teams.Alive {
		t.Fatalf("the process is %v", p.Liveness())
	}
	return config["leadSessionId"].(string), start
}

// leadProcess returns the entry in config.json for a lead's process.
func leadProcess(t *testing.T, pid int, start string) map[string]any {
	t.Helper()
	host, err := os.Hostname()
	must(t, err)
	space, err := os.Readlink("/proc/self/ns/pid")
	must(t, err)
	return map[string]any{"pid": pid, "pidSpace": host + "#" + space, "procStart": start, "claimedAt": 1}
}

// editConfig changes a config.json, and returns it.
func editConfig(t *testing.T, path string, edit func(map[string]any)) (c map[string]any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err == nil {
		edit(c)
		data, err = json.Marshal(c)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	must(t, err)
	return c
}

// Teams are read again if more events came since then than are read one by one.
func TestFarBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(os.RemoveAll(w.Path(older, "inboxes"))) // turns alone decide
	w.start(func(o *service.Options) { o.Behind = 2 })
	e := w.events("", "")
	works := func(s *api.Snapshot) bool {
		return slices.ContainsFunc(s.Status, func(s api.Status) bool {
			return s.Team == older && s.Member == "worker" && s.Word == api.WordWorking && s.Basis == api.BasisTurn
		})
	}
	if first := e.next(); works(first.Snapshot) {
		t.Errorf("at first: %+v", first.Snapshot)
	}
	a := w.worker(older)
	a.at = time.Now().UTC().Add(-time.Minute)
	a.says(startTurn, startTool, endTool, startTool)
	e.shows(works)
}
