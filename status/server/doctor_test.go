package server

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teambridge/status/api"
)

// The service finds what "teambridge doctor" finds, and removes what blocks an inbox only when
// it is asked to, and unless it is read-only.
func TestFindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lock := filepath.Join(w.Path(older, "inboxes"), "user.json.lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	r := w.start(t, func(s *Server) { s.opts.ReadOnly = true })
	report := func(method, path string) (report api.Report) {
		t.Helper()
		a := r.ask(t, method, path, "")
		if err := json.Unmarshal(a.body, &report); err != nil || a.status != 200 {
			t.Fatalf("%s %s: %d %s: %v", method, path, a.status, a.body, err)
		}
		return report
	}
	// blocked returns the finding about the lock.
	blocked := func(r api.Report) api.Finding {
		t.Helper()
		i := slices.IndexFunc(r.Findings, func(f api.Finding) bool { return f.Code == "foreign_lock" })
		if i < 0 || r.Findings[i].Path != lock || r.Findings[i].Level != api.LevelProblem || r.Inboxes == 0 {
			t.Fatalf("got %+v, want a problem with %s", r, lock)
		}
		return r.Findings[i]
	}
	if f := blocked(report("GET", "/v1/doctor?team="+older)); f.Fixed {
		t.Errorf("a look has fixed %+v", f)
	}
	all := report("GET", "/v1/doctor")
	if blocked(all); all.Teams != 2 || !slices.ContainsFunc(all.Findings, func(f api.Finding) bool { return f.Code == "service" && f.Level == api.LevelOK }) {
		t.Errorf("got %+v, want two teams, and a service that answers", all)
	}
	if a := r.ask(t, "GET", "/v1/doctor?team=nobody", ""); a.status != 404 {
		t.Errorf("a team that does not exist: %d %s", a.status, a.body)
	}
	if a := r.ask(t, "POST", "/v1/doctor/fix", ""); a.status != api.CodeReadOnly.HTTP() {
		t.Errorf("a read-only service: %d %s", a.status, a.body)
	}
	if _, err := os.Stat(lock); err != nil {
		t.Errorf("nobody asked to fix anything: %v", err)
	}
	r.end(t)
	r = w.start(t)
	if f := blocked(report("POST", "/v1/doctor/fix?team="+older)); !f.Fixed {
		t.Errorf("not fixed: %+v", f)
	}
	if _, err := os.Stat(lock); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock: %v", err)
	}
}
