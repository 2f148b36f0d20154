package standin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Chain returns what was said to the agent in a transcript, in order, if it is one conversation: each of these texts,
// and each whole answer, is an ancestor of the last record. What precedes the last answer of a conversation that two
// processes had at once is not. Records that a kill has torn are passed over.
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
			Content    content
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
	on := map[string]bool{}
	for i := len(all) - 1; i >= 0; {
		r := all[i]
		if on[r.UUID] = true; r.ParentUUID == "" {
			r.ParentUUID = r.LogicalParent
		}
		next, ok := at[r.ParentUUID]
		if r.ParentUUID != "" && (!ok || next >= i) {
			return nil, fmt.Errorf("standin: the parent of record %s, %s, does not precede it in %s", r.UUID, r.ParentUUID, transcript)
		}
		if i = next; r.ParentUUID == "" {
			break
		}
	}
	for _, r := range all {
		text := r.Message.Content.text()
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
