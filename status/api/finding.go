package api

// Levels of findings.
const (
	LevelProblem = "problem" // it keeps messages from arriving
	LevelNote    = "note"    // it is harmless
	LevelOK      = "ok"      // it is in order
)

// Finding is one thing that "teambridge doctor" found.
type Finding struct {
	Level   string `json:"level" enum:"problem,note,ok"` // [LevelProblem] and its like: a problem keeps messages from arriving, a note is harmless
	Code    string `json:"code"`                         // its kind
	Team    string `json:"team,omitempty"`
	Path    string `json:"path"`    // the file, or another place, that it concerns; may be empty
	Message string `json:"message"` // what was found
	Advice  string `json:"advice"`  // what to do about it; may be empty
	Fixed   bool   `json:"fixed"`   // it was a problem or a note, and has been fixed
}

// Report has the findings of a checkup, and how much it has checked.
type Report struct {
	Findings []Finding `json:"findings"`
	Teams    int       `json:"teams"`   // that were checked
	Inboxes  int       `json:"inboxes"` // that were checked
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
