package inbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"teambridge/relay/relaytest/killtest"
)

// Three processes of ours and a Node program with the lock of npm's proper-lockfile write to one inbox at once. Each
// message is in it once, and the rows of the Node program keep every byte.
func TestContentionWithNode(t *testing.T) {
	each := killtest.Rounds(t, envRounds, 20)
	p := newPlace(t)
	p.write([]byte("[]"))
	peer := lockPeer(t, p.path(), "peer", fmt.Sprint(each))
	var all sync.WaitGroup
	for i := range 3 {
		cmd := p.sender(job{Prefix: fmt.Sprintf("ours%d", i), Count: each})
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "failed ") {
				t.Errorf("sender %d: %v: %s", i, err, out)
			}
		})
	}
	written := map[string]string{} // rows of the Node program, by text
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

	var sent, seen []string
	for _, row := range p.rows() {
		seen = append(seen, row.Text)
		if want, ok := written[row.Text]; ok {
			var got bytes.Buffer
			if err := json.Compact(&got, row.Raw); err != nil || got.String() != want {
				t.Errorf("row of the peer is %s, %v, want %s", &got, err, want)
			}
		}
	}
	for _, prefix := range []string{"ours0", "ours1", "ours2", "peer"} {
		sent = append(sent, texts(prefix, each)...)
	}
	killtest.Once(t, sent, seen)
}
