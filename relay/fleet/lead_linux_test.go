package fleet

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/simchild"
)

// A living lead at a terminal gets no relay, even if only its file in sessions shows it: it reads
// its inbox itself.
func TestMemberIsALivingLead(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	h.Make("red", 1, "boss", "worker")
	parent := os.Getppid()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", parent))
	must(t, err)
	_, after, _ := strings.Cut(string(data), ") ")
	start, now := strings.Fields(after)[19], time.Now().UnixMilli()
	must(t, os.WriteFile(h.Path("red", "config.json"), []byte(fmt.Sprintf(`{"name":"red","createdAt":%d,"leadAgentId":"boss@red","leadSessionId":"random","members":[
		{"agentId":"boss@red","name":"boss","agentType":"team-lead","tmuxPaneId":"leader","cwd":%q},{"agentId":"worker@red","name":"worker","agentType":"agent"}]}`, now, h.work)), 0o600))
	must(t, os.Mkdir(h.Root.Path()+"/sessions", 0o700))
	must(t, os.WriteFile(h.Root.Path()+"/sessions/1.json", []byte(fmt.Sprintf(`{"pid":%d,"sessionId":"resumed","version":"2.1.200","kind":"interactive","cwd":%q,"procStart":%q,"startedAt":%d}`,
		parent, h.work, start, now)), 0o600))
	team := h.Team("red")
	if _, err := Member(t.Context(), team, "worker"); err != nil {
		t.Errorf("the worker: %v", err)
	}
	_, err = Member(t.Context(), team, "boss")
	if lead, ok := errors.AsType[*LeadError](err); !ok || lead.PID != parent {
		t.Errorf("the lead: %v, want that process %d lives", err, parent)
	}
}
