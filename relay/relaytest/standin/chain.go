package standin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"teambridge/relay/relaytest/model"
)

// Chain returns the texts to the agent in a transcript, in order, if it is one conversation: each of these texts, and
// each whole answer, is the last record or an ancestor of it. In a conversation that two processes had at once, the
// records before the last answer are not. Records that a kill has torn are skipped.
func Chain(transcript string) (texts []string, err error) {
	data, err := os.ReadFile(transcript)
	if err != nil {
		return nil, err
	}
	type record struct {
		Type          string
		UUID          string
		ParentUUID    string
		LogicalParent string `json:"logicalParentUuid"`
		IsSidechain   bool
		IsMeta        bool
		Message       struct {
			StopReason string `json:"stop_reason"`
			Content    model.Content
		}
	}
	var all []record
	at := map[string]int{}
	for line := range bytes.Lines(data) {
		var r record
		if json.Unmarshal(line, &r) != nil || r.UUID == "" || r.IsSidechain {
			continue
		}
		if _, twice := at[r.UUID]; twice {
			return nil, fmt.Errorf("standin: record %s is twice in %s", r.UUID, transcript)
		}
		at[r.UUID] = len(all)
		all = append(all, r)
	}
	// Interactive sessions of some versions, 2.1.300 for one, write attachments after records that descend from them.
	child := map[string]int{}
	for i := range all {
		if all[i].ParentUUID == "" {
			all[i].ParentUUID = all[i].LogicalParent
		}
		child[all[i].ParentUUID] = i
	}
	last := len(all) - 1
	for range all {
		if next, ok := child[all[last].UUID]; ok {
			last = next
		}
	}
	on := map[string]bool{}
	for i := last; i >= 0; {
		r := all[i]
		if on[r.UUID] {
			return nil, fmt.Errorf("standin: record %s is its own ancestor in %s", r.UUID, transcript)
		}
		if on[r.UUID] = true; r.ParentUUID == "" {
			break
		}
		next, ok := at[r.ParentUUID]
		if !ok {
			return nil, fmt.Errorf("standin: the parent of record %s, %s, is missing in %s", r.UUID, r.ParentUUID, transcript)
		}
		i = next
	}
	for _, r := range all {
		text := r.Message.Content.Text()
		prompt := r.Type == "user" && !r.IsMeta && text != "" && !strings.HasPrefix(text, "[Request interrupted by user")
		if !on[r.UUID] && (prompt || r.Message.StopReason == "end_turn") {
			return nil, fmt.Errorf("standin: a fork: %s %s (%.100q) is no ancestor of the last record of %s", r.Type, r.UUID, text, transcript)
		}
		if prompt {
			texts = append(texts, text)
		}
	}
	return texts, nil
}
