package api

// Levels of findings.
const (
	LevelProblem = "problem" // it keeps messages from arriving
	LevelNote    = "note"    // it harms nobody
	LevelOK      = "ok"      // it is in order
)

// Finding is one thing that "teambridge doctor" found.
type Finding struct {
	Level   string `json:"level" enum:"problem,note,ok"` // [LevelProblem] and its like: a problem keeps messages from arriving, a note harms nobody
	Code    string `json:"code"`                         // what kind of finding it is
	Team    string `json:"team,omitempty"`
	Path    string `json:"path"`    // the file that it is about, or another place; may be empty
	Message string `json:"message"` // what was found
	Advice  string `json:"advice"`  // what to do about it; may be empty
	Fixed   bool   `json:"fixed"`   // it was a problem or a note, and is mended
}

// Report is what a checkup found, and how much it has looked at.
type Report struct {
	Findings []Finding `json:"findings"`
	Teams    int       `json:"teams"`   // that were looked at
	Inboxes  int       `json:"inboxes"` // that were looked at
}

// Problems returns the number of problems that are not fixed.
func (r Report) Problems() (n int) {
	for _, f := range r.Findings {
		if f.Level == LevelProblem && !f.Fixed {
			n++
		}
	}
	return n
}
