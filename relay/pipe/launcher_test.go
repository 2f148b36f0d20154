package pipe_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"teambridge/relay/mode"
	"teambridge/relay/pipe"
)

// A queue and a stream serve a loop that hands batches to processes, each of
// which runs with one mode and reads one stream, one batch at a time. These
// are the ways in which such loops have lost messages.

// message has other fields than its text; none may get lost on the way.
type message struct {
	Text        string
	Attachments map[string][]byte
}

func text(s string) message { return message{Text: s} }

// process is a child that runs with one mode. It reads its stdin as long as it
// lives, and reports the results of its input.
type process struct {
	mode    mode.Mode
	stdin   *pipe.Stream[[]message]
	results chan error
}

type launcher struct {
	t     *testing.T
	queue *pipe.Queue[message]
	model func(p *process, batch []message) (results int, err error)

	started []*process
	log     []string  // the finished texts, with the modes they ran in
	seen    []message // the same, whole
	current mode.Mode // of the last push
}

func (l *launcher) start(mode mode.Mode) *process {
	p := &process{mode: mode, stdin: pipe.NewStream[[]message](1), results: make(chan error, 10)}
	l.started = append(l.started, p)
	go func() {
		defer close(p.results)
		for batch, err := range p.stdin.All(context.Background()) {
			if err != nil {
				return
			}
			n, err := l.model(p, batch)
			if err != nil {
				p.stdin.Fail(err)
				p.results <- err
				return
			}
			var texts []string
			for _, m := range batch {
				texts = append(texts, m.Text)
				l.seen = append(l.seen, m)
			}
			model, _ := p.mode.Model.Value()
			l.log = append(l.log, fmt.Sprintf("%s: %s", model, strings.Join(texts, "+")))
			for range n {
				p.results <- nil
			}
		}
	}()
	return p
}

// run hands out batches until the queue is closed and empty. It looks at a batch
// before it takes it: a batch that has to wait for another process stays in the
// queue.
func (l *launcher) run(switching func()) {
	var p *process
	stop := func() {
		if p == nil {
			return
		}
		p.stdin.End()
		for range p.results {
		}
		p = nil
	}
	defer stop()
	for {
		next, err := l.queue.Peek(context.Background())
		if errors.Is(err, pipe.ErrClosed) {
			return
		}
		if p == nil || p.mode != next.Mode {
			stop()
			switching()
			// The next batch may be another by now.
			next, err = l.queue.Peek(context.Background())
			if errors.Is(err, pipe.ErrClosed) {
				return
			}
			p = l.start(next.Mode)
		}
		batch, err := l.queue.Next(context.Background())
		if err != nil || batch.Mode != p.mode {
			l.t.Errorf("got mode %s (%v), want %s", batch.Mode, err, p.mode)
			return
		}
		for {
			if err := p.stdin.Push(batch.Items); err != nil {
				l.t.Error(err)
				return
			}
			if err := <-p.results; err == nil {
				break
			}
			// The process has died with the batch: the next one gets it.
			for range p.results {
			}
			if err := p.stdin.Push(batch.Items); !errors.Is(err, pipe.ErrEnded) {
				l.t.Errorf("a dead process took a batch: %v", err)
			}
			p = l.start(batch.Mode)
		}
	}
}

func (l *launcher) push(s string, model string) {
	l.t.Helper()
	l.current = l.current.Merge(mode.Mode{Model: mode.Set(model)})
	if err := l.queue.Push(text(s), l.current); err != nil {
		l.t.Error(err)
	}
}

func (l *launcher) want(log ...string) {
	l.t.Helper()
	if !reflect.DeepEqual(l.log, log) {
		l.t.Errorf("got %q, want %q", l.log, log)
	}
}

func one(*process, []message) (int, error) { return 1, nil }

func TestLauncher(t *testing.T) {
	t.Parallel()
	nothing := func() {}
	for name, test := range map[string]func(t *testing.T, l *launcher){
		"A, B, C reach processes of their own, in order": func(t *testing.T, l *launcher) {
			for _, s := range []string{"a", "b", "c", "a"} {
				l.push("to "+s, s)
			}
			l.queue.Close()
			l.run(nothing)
			l.want("a: to a", "b: to b", "c: to c", "a: to a")
		},
		"a partial change keeps the rest of the mode": func(t *testing.T, l *launcher) {
			l.current = mode.Mode{PermissionMode: mode.Set("plan")}
			l.push("1", "a")
			l.push("2", "a")
			l.queue.Close()
			l.run(nothing)
			l.want("a: 1+2")
			if v, _ := l.started[0].mode.PermissionMode.Value(); v != "plan" {
				t.Errorf("ran with permission mode %q", v)
			}
		},
		"two results while another mode is parked": func(t *testing.T, l *launcher) {
			l.model = func(p *process, batch []message) (int, error) {
				if batch[0].Text == "1" {
					l.push("parked", "b")
					return 2, nil // the second is of a task in the background
				}
				l.queue.Close()
				return 1, nil
			}
			l.push("1", "a")
			l.run(nothing)
			l.want("a: 1", "b: parked")
		},
		"the child dies before its first result": func(t *testing.T, l *launcher) {
			deaths := 0
			l.model = func(*process, []message) (int, error) {
				if deaths++; deaths <= 2 {
					return 0, errors.New("killed")
				}
				return 1, nil
			}
			l.push("1", "a")
			l.push("2", "a")
			l.push("3", "b")
			l.queue.Close()
			l.run(nothing)
			l.want("a: 1+2", "b: 3")
			if len(l.started) != 4 {
				t.Errorf("%d processes, want 4", len(l.started))
			}
		},
		"attachments survive a restart": func(t *testing.T, l *launcher) {
			with := message{"see", map[string][]byte{"x.png": {0, 1, 0xff}, "empty": {}}}
			died := false
			l.model = func(*process, []message) (int, error) {
				if !died {
					died = true
					return 0, errors.New("killed")
				}
				return 1, nil
			}
			if err := l.queue.Push(with, mode.Mode{}); err != nil {
				t.Fatal(err)
			}
			l.queue.Close()
			l.run(nothing)
			if want := []message{with}; !reflect.DeepEqual(l.seen, want) {
				t.Errorf("got %v, want %v", l.seen, want)
			}
		},
		"the first message of a new session": func(t *testing.T, l *launcher) {
			finished := make(chan struct{})
			go func() {
				defer close(finished)
				l.run(nothing)
			}()
			synctest.Wait() // it waits, and no process runs
			if len(l.started) != 0 {
				t.Error("a process was started for nothing")
			}
			l.push("first", "a")
			l.queue.Close()
			<-finished
			l.want("a: first")
		},
		"what arrives while switching": func(t *testing.T, l *launcher) {
			l.push("1", "a")
			l.push("2", "b")
			switches := 0
			l.run(func() {
				if switches++; switches == 2 {
					l.push("meanwhile", "b")
					l.push("back", "a")
					l.queue.Close()
				}
			})
			l.want("a: 1", "b: 2+meanwhile", "a: back")
		},
		"cleared while switching": func(t *testing.T, l *launcher) {
			l.push("1", "a")
			l.push("2", "b")
			switches := 0
			l.run(func() {
				if switches++; switches != 2 {
					return
				}
				cleared, err := l.queue.PushIsolateAndClear(text("/clear"), mode.Mode{Model: mode.Set("c")})
				if want := []pipe.Entry[message]{{Item: text("2"), Mode: mode.Mode{Model: mode.Set("b")}}}; err != nil || !reflect.DeepEqual(cleared, want) {
					t.Errorf("cleared %v (%v), want %v", cleared, err, want)
				}
				l.queue.Close()
			})
			l.want("a: 1", "c: /clear")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, err := pipe.NewQueue(pipe.Options[message]{})
				if err != nil {
					t.Fatal(err)
				}
				test(t, &launcher{t: t, queue: q, model: one})
			})
		})
	}
}
