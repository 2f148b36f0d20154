package process

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// drain is how long the output of a program is read after its exit.
	drain = time.Second
	// keptOutput is how much of the end of its output an error quotes, in bytes.
	keptOutput = 4 << 10
)

// Tree is a program with its descendants. An entry in the environment of all of them finds those that have left the
// program's group.
type Tree struct {
	*Child
	Mark    string      // the entry, "NAME=value"
	File    string      // tells later processes about the program; [Tree.Run] removes it when nothing has to be ended
	Resting atomic.Bool // the program is being ended between two turns, so processes that its tools started may stay

	out Tail
}

// NewTree returns the tree of a program that was started with a mark in its environment.
func NewTree(c *Child, mark, file string) *Tree {
	return &Tree{Child: c, Mark: mark, File: file, out: Tail{Limit: keptOutput}}
}

// Run waits for the end of the program, and returns its exit error. It kills the rest of the tree, unless that rests.
// read reads the standard output; if it is nil, errors quote that, too. stderr may be nil. exited is called at the exit.
func (t *Tree) Run(stderr io.Writer, read, exited func()) error {
	var reading sync.WaitGroup
	if read == nil {
		read = func() { _, _ = io.Copy(&t.out, t.Stdout) }
	}
	reading.Go(read)
	reading.Go(func() { _, _ = io.Copy(t.out.Tee(stderr), t.Stderr) })
	err := t.Wait()
	exited()
	if !t.Resting.Load() {
		KillByEnv(t.Mark) // what it leaves, the next program ends: the file stays
	}
	t.Drain(drain, &reading)
	if t.Resting.Load() || len(FindByEnv(t.Mark)) == 0 {
		_ = os.Remove(t.File)
	}
	return err
}

// Said returns the end of the program's output.
func (t *Tree) Said() string { return strings.TrimSpace(t.out.String()) }

// Quote adds the end of the program's output to an error.
func (t *Tree) Quote(err error) error {
	if said := t.Said(); said != "" {
		return fmt.Errorf("%w; it said: %.1000q", err, said)
	}
	return err
}
