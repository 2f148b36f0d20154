package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/cmd/stdio"
	"teambridge/inbox"
	"teambridge/relay/relaytest/simagent"
	"teambridge/teams"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// BenchmarkChanges measures the time from the rename of an inbox until a command gets the change through the journal:
// the median and the 99th percentile.
//
//	go test -run '^$' -bench Changes -benchtime 1000x ./cmd/teambridge
func BenchmarkChanges(b *testing.B) {
	dir := b.TempDir()
	a := newApp(host{stderr: &bytes.Buffer{}, lookup: func(string) (string, bool) { return "", false }, cwd: os.Getwd}, &stdio.Output{})
	a.claudeDir, a.state = filepath.Join(dir, "claude"), filepath.Join(dir, "state")
	team, err := simagent.Create(b.Context(), simagent.TeamOptions{Root: a.claudeDir, Members: []simagent.Member{{Name: "worker"}}})
	errtest.Must(b, err)
	root, err := teams.Open(a.claudeDir)
	errtest.Must(b, err)
	defer root.Close()
	tap, err := a.local().Record(b.Context(), "")
	errtest.Must(b, err)
	defer tap.Close()
	path := team.Agent("worker").Inbox()
	var took []time.Duration
	disk := teamstest.NewDisk(b)
	for b.Loop() {
		rows, err := json.Marshal([]map[string]any{{"from": "user", "text": fmt.Sprint("message ", len(took)), "timestamp": time.Now().UTC().Format(inbox.TimestampLayout)}})
		errtest.Must(b, err)
		errtest.Must(b, os.WriteFile(path+".tmp.0123abcd", rows, 0o600))
		start := time.Now()
		errtest.Must(b, os.Rename(path+".tmp.0123abcd", path))
		if list, err := tap.Changes(b.Context(), patience); err != nil || len(list) == 0 {
			b.Fatalf("%d changes, %v", len(list), err)
		}
		took = append(took, time.Since(start))
		disk.Commit(path)
	}
	teamstest.ReportTimes(b, "", took)
	disk.Report(b)
}
