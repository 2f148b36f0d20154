//go:build unix

package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simagent"
)

// Our processes, two Node programs with the lock of npm's proper-lockfile, and an agent that takes rows use one inbox
// at once. The agent gets every message once, and the rows of other programs keep every byte.
func TestContention(t *testing.T) {
	senders, peers, each := 8, 2, killtest.Rounds(t, envRounds, 100)
	if testing.Short() {
		senders, each = 4, 25
	}
	contend(t, senders, peers, each)
}

// line is what testdata/peer.js prints for a message.
type line struct {
	Text, Row string
	Waited    int // milliseconds
}

func contend(t *testing.T, senders, peers, each int) {
	p := newPlace(t)
	p.write([]byte("[]"))
	others := make([]*exec.Cmd, peers)
	for i := range others { // before anything runs: without them the test is skipped
		others[i] = lockPeer(t, p.path(), fmt.Sprintf("peer%d", i), fmt.Sprint(each))
	}
	agent, err := simagent.New(simagent.Options{Dir: p.dir, Name: "alice", Poll: 50 * time.Millisecond})
	must(t, err)
	run, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() {
		if err := agent.Run(run); err != nil {
			t.Errorf("agent: %v", err)
		}
	})

	start := time.Now()
	var wg sync.WaitGroup
	for i := range senders {
		cmd := p.sender(job{Prefix: fmt.Sprintf("ours%d", i), Count: each})
		wg.Go(func() {
			out, err := cmd.CombinedOutput()
			for l := range strings.Lines(string(out)) {
				if !strings.HasPrefix(l, "sent ") {
					t.Errorf("sender %d: %s", i, l)
				}
			}
			if err != nil {
				t.Errorf("sender %d: %v", i, err)
			}
		})
	}
	rows := make([]map[string]line, peers) // of each peer, by text
	for i, cmd := range others {
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		wg.Go(func() {
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("peer %d: %v: %s", i, err, &stderr)
			}
			rows[i] = map[string]line{}
			for l := range strings.Lines(string(out)) {
				var row line
				if err := json.Unmarshal([]byte(l), &row); err != nil {
					t.Errorf("peer %d: %q: %v", i, l, err)
				}
				rows[i][row.Text] = row
			}
		})
	}
	wg.Wait()
	took := time.Since(start)

	want := (senders + peers) * each
	waiting, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	taken, err := agent.Wait(waiting, want)
	if err != nil {
		t.Error(err)
		taken = agent.Log()
	}
	stop()
	running.Wait()

	var sent, seen []string
	for i := range senders {
		sent = append(sent, texts(fmt.Sprintf("ours%d", i), each)...)
	}
	longest, late := 0, 0
	for i := range peers {
		sent = append(sent, texts(fmt.Sprintf("peer%d", i), each)...)
		for _, row := range rows[i] {
			longest = max(longest, row.Waited)
			if row.Waited > 1000 {
				late++
			}
		}
	}
	for _, row := range taken {
		seen = append(seen, row.Text)
	}
	killtest.Once(t, sent, seen)
	// Rows of the Node programs, as the agent found them.
	for _, row := range taken {
		for _, written := range rows {
			if w, ok := written[row.Text]; ok && compact(t, row.Raw) != w.Row {
				t.Errorf("row of a peer, as taken:\n%s\nas written:\n%s", row.Raw, w.Row)
			}
		}
	}
	if left := p.rows(); len(left) != 0 {
		t.Errorf("%d rows are left, want none", len(left))
	}
	p.wantNames("alice.json")
	t.Logf("%d messages in %s; longest wait of a proper-lockfile peer %d ms, %d waits over 1 s",
		want, took.Round(time.Millisecond), longest, late)
}

func compact(t *testing.T, raw []byte) string {
	t.Helper()
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		t.Error(err)
	}
	return buf.String()
}
