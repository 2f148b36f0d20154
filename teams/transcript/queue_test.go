package transcript

import (
	"fmt"
	"strings"
	"testing"
)

// Each step is an operation, with its text after a colon; the texts that left the queue follow "->".
func TestQueue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps []string
		waits string
	}{
		"a turn each":                   {[]string{"enqueue:a", "enqueue:b", "dequeue->a", "dequeue->b"}, ""},
		"given in the middle of a turn": {[]string{"enqueue:a", "enqueue:b", "remove:b->b"}, "a"},
		"the same in old files":         {[]string{"enqueue:a", "enqueue:b", "remove->a"}, "b"},
		"taken back":                    {[]string{"enqueue:a", "enqueue:b", "popAll:b->b", "popAll:a->a"}, ""},
		"taken back in other words":     {[]string{"enqueue:a", "popAll:[Pasted text #1]->a"}, ""},
		"taken back and queued again":   {[]string{"enqueue:a", "popAll:a->a", "enqueue:a"}, "a"},
		"queued before the first":       {[]string{"remove", "dequeue", "popAll:x", "enqueue:a", "remove:x"}, "a"},
		"an operation of later":         {[]string{"enqueue:a", "rotate", "rotate:a"}, "a"},
	} {
		var q Queue
		for _, step := range test.steps {
			do, want, _ := strings.Cut(step, "->")
			operation, text, _ := strings.Cut(do, ":")
			r, _ := Parse(fmt.Appendf(nil, `{"type":"queue-operation","operation":%q,"content":%q}`, operation, text))
			if left, ok := q.Add(&r); left.Text != want || ok != (want != "") {
				t.Errorf("%s: %s: %q left, %v, want %q", name, step, left.Text, ok, want)
			}
		}
		waits := ""
		for _, p := range q {
			waits += p.Text
		}
		if waits != test.waits {
			t.Errorf("%s: %q waits, want %q", name, waits, test.waits)
		}
	}
}
