package wire

import "strings"

// Issue is one broken rule.
type Issue struct {
	// Path leads to the value: keys and array indexes, joined by dots, such as
	// "meta.allowedTools.1". It is empty for the text as a whole.
	Path string `json:"path"`

	// Rule is a description of the allowed values. It does not quote the value.
	Rule string `json:"rule"`
}

func (i Issue) String() string {
	if i.Path == "" {
		return "(root): " + i.Rule
	}
	return i.Path + ": " + i.Rule
}

// maxIssues limits how many issues one Error lists. A long array of wrong
// elements would otherwise give an error longer than the message.
const maxIssues = 20

// Error lists the rules that a message breaks, in the order of its fields: at
// least one, and at most 20.
type Error struct {
	Issues []Issue
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("wire: ")
	for i, issue := range e.Issues {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(issue.String())
	}
	return b.String()
}
