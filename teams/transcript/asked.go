package transcript

import (
	"io"
	"slices"
)

// Asked returns a session's tool use without a result: the one that its question is about, if it waits for its
// person. ok is false if there are several, since some may run, or if the use is a subagent, which may ask itself.
func Asked(path string) (call Block, ok bool) {
	file, info, err := open(path)
	if err != nil {
		return Block{}, false
	}
	defer file.Close()
	start := max(0, info.Size()-longTail)
	var done []string // calls with results
	var calls []Block
	for _, line := range Backward(io.NewSectionReader(file, start, longTail), info.Size()-start) {
		r, valid := Parse(line)
		if !valid || r.Sidechain {
			continue
		}
		if step := r.Step(); step == Begins || step == Interrupts {
			break // earlier records are of another turn, or of one that asks nothing any more
		}
		for _, b := range r.Blocks() {
			switch {
			case b.Type == "tool_result":
				done = append(done, b.ToolUseID)
			case r.Type == "assistant" && b.Type == "tool_use" && !slices.Contains(done, b.ID):
				calls = append(calls, b)
			}
		}
	}
	if len(calls) != 1 || calls[0].Name == "Agent" || calls[0].Name == "Task" {
		return Block{}, false
	}
	return calls[0], true
}
