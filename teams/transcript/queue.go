package transcript

import (
	"slices"
	"strings"
	"time"
)

// Refused begins the text that Claude Code writes when a UserPromptSubmit hook has refused a prompt.
const Refused = "UserPromptSubmit operation blocked by hook:"

const original = "\n\nOriginal prompt: "

// RefusedBy returns a hook's reason for refusing a prompt, and the prompt, from a record's content or a turn's
// result. ok is false if the text reports no refusal. A reason can be any text, so only the end of text proves which
// prompt it was. prompt is queued if text ends with it, else the text after the first mark that could end the reason.
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

// Queue is the prompts that a program keeps until the end of the turn, according to its queue-operation records. The
// operations:
//
//   - enqueue: a prompt was entered while a turn ran.
//   - dequeue: a turn begins with the first prompt. A record of the prompt follows.
//   - remove: the model gets a prompt in the middle of a turn. An attachment records that, too. Old versions record
//     no text, and mean the first prompt.
//   - popAll, once for each prompt: a person took all of them back to the input, where they are a draft.
//
// No version continues with its queue when the session is resumed.
type Queue []Queued

// Queued is a prompt in a [Queue].
type Queued struct {
	At   time.Time
	Text string
}

// Add applies a queue-operation record, and returns the prompt that left the queue. It returns none for a prompt that
// was queued before the first record.
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
