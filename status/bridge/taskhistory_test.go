package bridge_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/service"
	"teambridge/teams/teamstest"
)

// A change while a service runs is recorded with its time, and a change between two services with two times. A
// service that is killed knows the times less exactly.
func TestTasksAcrossServices(t *testing.T) {
	t.Parallel()
	f := teamstest.New(t)
	dir := filepath.Join(f.Root.Path(), "tasks", "shared")
	must(t, os.MkdirAll(dir, 0o700))
	write := func(status string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, "1.json"), []byte(`{"subject": "s", "status": "`+status+`"}`), 0o600))
	}
	// serve runs a service for as long as during takes.
	serve := func(killed bool, during func(context.Context, *service.Service)) {
		t.Helper()
		s, err := service.Open(t.Context(), service.Options{Root: f.Root, State: f.State, ReadOnly: true, KeepWork: time.Hour, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		defer s.Close()
		err = s.Run(t.Context(), func(running context.Context, _ service.Part) error {
			during(running, s)
			if killed { // its last record is not written
				return s.Close()
			}
			return nil
		})
		if err != nil && !killed {
			t.Error(err)
		}
	}
	// changes waits until n changes are recorded, without asking the service, which would look.
	changes := func(n int) []journal.TaskChange {
		t.Helper()
		j, err := journal.Open(t.Context(), filepath.Join(f.State, "journal.db"))
		must(t, err)
		defer j.Close()
		for {
			list, _, err := j.Tasks.Changes(t.Context(), journal.TaskQuery{})
			must(t, err)
			if len(list) >= n {
				return list
			}
			if t.Context().Err() != nil {
				t.Fatal("nothing was recorded")
			}
		}
	}
	write("pending")
	for name, text := range map[string]string{"2.json": "{}", "3.json": "{"} { // it cannot be read
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	began := time.Now()
	serve(false, func(context.Context, *service.Service) {
		write("in_progress")
		if c := changes(1)[0]; c.What != api.TaskStatus || c.Was != "pending" || c.Now != "in_progress" || !c.After.IsZero() || c.At.Before(began.Add(-time.Second)) {
			t.Errorf("while it runs: %+v", c)
		}
		must(t, os.Remove(filepath.Join(dir, "2.json")))
		if c := changes(2)[0]; c.What != api.TaskDeleted || c.ID != "2" || !c.After.IsZero() {
			t.Errorf("beside a file that cannot be read: %+v", c)
		}
	})
	write("completed")
	serve(true, func(context.Context, *service.Service) {
		if c := changes(3)[0]; c.Was != "in_progress" || c.Now != "completed" || c.After.IsZero() || c.After.After(c.At) {
			t.Errorf("between two services: %+v", c)
		}
	})
	last := changes(3)[0].At
	must(t, os.Remove(filepath.Join(dir, "1.json")))
	serve(false, func(ctx context.Context, s *service.Service) {
		if c := changes(4)[0]; c.What != api.TaskDeleted || c.After.Before(last) || !c.After.Before(c.At) {
			t.Errorf("after a service that was killed: %+v", c)
		}
		h, err := s.TaskHistory(ctx, api.TaskHistoryQuery{})
		if err != nil || len(h.Changes) != 4 || h.Since == nil {
			t.Errorf("%+v, %v", h, err)
		}
	})
}
