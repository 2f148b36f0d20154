package transcript

import (
	"slices"
	"strings"
	"time"
)

// Refused is what Claude Code writes when a UserPromptSubmit hook has refused a prompt.
const Refused = "UserPromptSubmit operation blocked by hook:"

const original = "\n\nOriginal prompt: "

// RefusedBy returns what the hook that has refused a prompt said, and the prompt; ok is false if a text, the content of
// a record or the result of a turn, says nothing of that. Since the hook can say anything, only the end of the text
// proves which prompt it was: queued, if it is that one, and otherwise what follows what seems to be the hook's words.
func RefusedBy(text, queued string) (why, prompt string, ok bool) {
	text, ok = strings.CutPrefix(text, Refused)
	if !ok {
		return "", "", false
	}
	if why, is := strings.CutSuffix(text, original+queued); is && queued != "" {
		return strings.TrimSpace(why), queued, true
	}
	why, prompt, _ = strings.Cut(text, original)
	return strings.TrimSpace(why), prompt, true
}

// Queue is what a program has been told and keeps until the end of the turn, as its queue-operation
// records say. The operations:
//
//   - enqueue: somebody entered a prompt while a turn ran.
//   - dequeue: a turn begins with the first one. A record of what it says follows.
//   - remove: the model is given one in the middle of a turn. An attachment says so too. Of old
//     versions the operation has no text, and it is the first one.
//   - popAll, once for each: a person took all back to the prompt, where they are a draft.
//
// No version goes on with its queue when the session is resumed.
type Queue []Queued

// Queued is a prompt in a [Queue].
type Queued struct {
	At   time.Time
	Text string
}

// Add takes a queue-operation record, and returns what left the queue. That is nothing if it was
// queued before the first record.
func (q *Queue) Add(r *Record) (left Queued, ok bool) {
	text := Texts(r.Content, "")
	if r.Operation == "enqueue" {
		*q = append(*q, Queued{r.Time(), text})
		return Queued{}, false
	}
	i := slices.IndexFunc(*q, func(p Queued) bool { return p.Text == text })
	switch r.Operation {
	case "dequeue", "popAll":
		i = max(i, 0)
	case "remove":
		if text == "" {
			i = 0
		}
	default:
		i = -1
	}
	if i < 0 || len(*q) == 0 {
		return Queued{}, false
	}
	left = (*q)[i]
	*q = slices.Delete(*q, i, i+1)
	return left, true
}
