package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// envAppend has a TestMain append to an inbox instead of running tests: a list of Claude directory, state directory,
// folder for notes, prefix, and number of messages.
const envAppend = "INBOX_TEST_APPEND"

func TestMain(m *testing.M) {
	if spec := os.Getenv(envAppend); spec != "" {
		if err := appendMessages(spec); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func appendMessages(spec string) error {
	var job struct {
		Root, State, Notes, Prefix string
		Count                      int
	}
	if err := json.Unmarshal([]byte(spec), &job); err != nil {
		return err
	}
	root, err := teams.Open(job.Root)
	if err != nil {
		return err
	}
	team, err := root.Team("demo")
	if err != nil {
		return err
	}
	b, err := inbox.Open(team, "alice", lockedfile.New(lockedfile.Options{Dir: job.State, Wait: time.Minute, Hold: time.Minute}))
	if err != nil {
		return err
	}
	for i := range job.Count {
		if _, err := b.Append(context.Background(), numbered(job.Prefix, i), inbox.AppendOptions{Memory: &notebook{dir: job.Notes}}); err != nil {
			return err
		}
	}
	return nil
}

// Three processes of ours and a Node program with the lock of npm's proper-lockfile write to one inbox at once. All is
// there, once, and the rows of the Node program keep every byte.
func TestContentionWithNode(t *testing.T) {
	each := rounds(t, 20)
	p := newPlace(t)
	p.write([]byte("[]"))
	peer := lockPeer(t, p.path(), "peer", fmt.Sprint(each))
	var all sync.WaitGroup
	for i := range 3 {
		spec, err := json.Marshal(map[string]any{"Root": p.root, "State": p.state, "Notes": p.notes, "Prefix": fmt.Sprintf("ours%d", i), "Count": each})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envAppend+"="+string(spec))
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("sender %d: %v: %s", i, err, out)
			}
		})
	}
	written := map[string]string{} // rows of the peer, by text
	all.Go(func() {
		var stderr bytes.Buffer
		peer.Stderr = &stderr
		out, err := peer.Output()
		if err != nil {
			t.Errorf("peer: %v: %s", err, &stderr)
		}
		for line := range strings.Lines(string(out)) {
			var row struct{ Text, Row string }
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Errorf("peer: %q: %v", line, err)
			}
			written[row.Text] = row.Row
		}
	})
	all.Wait()

	seen := map[string]int{}
	for _, row := range p.rows() {
		seen[row.Text]++
		if want, ok := written[row.Text]; ok {
			var got bytes.Buffer
			if err := json.Compact(&got, row.Raw); err != nil || got.String() != want {
				t.Errorf("row of the peer is %s, %v, want %s", &got, err, want)
			}
		}
	}
	for _, prefix := range []string{"ours0", "ours1", "ours2", "peer"} {
		for i := range each {
			if text := numbered(prefix, i).Text; seen[text] != 1 {
				t.Errorf("%s is there %d times", text, seen[text])
			}
		}
	}
	if len(seen) != 4*each {
		t.Errorf("%d messages, want %d", len(seen), 4*each)
	}
}
