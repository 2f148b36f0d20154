package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sync"
	"unsafe"

	"github.com/rogpeppe/go-internal/testscript"
)

// A start of this program takes longer than most command lines. So scripts run theirs in processes that have been
// started already, one at a time in each.

// workerVariable makes a process a worker.
const workerVariable = "TEST_WORKER"

// order is a command line for a worker, with the other properties of a process.
type order struct {
	Args, Env []string
	Dir       string
	Stdin     []byte
}

// outcome is the result of an order.
type outcome struct {
	Stdout, Stderr []byte
	Status         int
}

// worker is a process that runs command lines until its standard input ends.
type worker struct {
	orders   *json.Encoder
	outcomes *json.Decoder
	end      func() error
}

// idlers has the workers that are idle.
var idlers = make(chan *worker, 64)

// run runs a command line in an idle worker, or in a new one. A worker that failed is not used again.
func (o order) run() (outcome, error) {
	var w *worker
	select {
	case w = <-idlers:
	default:
		var err error
		if w, err = hire(); err != nil {
			return outcome{}, err
		}
	}
	var result outcome
	if err := errors.Join(w.orders.Encode(o), w.outcomes.Decode(&result)); err != nil {
		return outcome{}, fmt.Errorf("the worker ended: %w", err)
	}
	select {
	case idlers <- w:
	default:
	}
	return result, nil
}

func hire() (*worker, error) {
	cmd := exec.Command("teambridge")
	cmd.Env = append(os.Environ(), workerVariable+"=1", "GORACE=atexit_sleep_ms=0", "TZ=UTC")
	cmd.Stderr = os.Stderr // for a panic
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	end := func() error { return errors.Join(stdin.Close(), cmd.Wait()) }
	return &worker{json.NewEncoder(stdin), json.NewDecoder(stdout), end}, cmd.Start()
}

// dismiss ends the workers, which are idle after the tests: on Windows, a program that runs cannot be deleted.
func dismiss() error {
	var all error
	for range len(idlers) {
		all = errors.Join(all, (<-idlers).end())
	}
	return all
}

// work is the main function of a worker.
func work() int {
	orders, outcomes := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			panic(err)
		}
		result, err := o.obey()
		if err := errors.Join(err, outcomes.Encode(result)); err != nil {
			panic(err)
		}
	}
}

// obey runs a command line in this process, with the environment, the directory and the standard files that a process
// of its own would have.
func (o order) obey() (result outcome, err error) {
	os.Clearenv()
	for _, entry := range o.Env {
		if name, value, ok := bytes.Cut([]byte(entry), []byte("=")); ok {
			err = errors.Join(err, os.Setenv(string(name), string(value)))
		}
	}
	stdin, in, err1 := os.Pipe()
	out, stdout, err2 := os.Pipe()
	errs, stderr, err3 := os.Pipe()
	if err = errors.Join(err, os.Chdir(o.Dir), err1, err2, err3); err != nil {
		return result, err
	}
	var copying sync.WaitGroup
	before := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	os.Stdin, os.Stdout, os.Stderr = stdin, stdout, stderr
	go func() {
		_, _ = in.Write(o.Stdin) // not everything may be read
		in.Close()
	}()
	copying.Go(func() { result.Stdout, err1 = io.ReadAll(out) })
	copying.Go(func() { result.Stderr, err2 = io.ReadAll(errs) })
	h := underTest(ownProcess())
	h.goesOn = true
	result.Status = run(o.Args, h)
	os.Stdin, os.Stdout, os.Stderr = before[0], before[1], before[2]
	err = errors.Join(stdin.Close(), stdout.Close(), stderr.Close())
	copying.Wait()
	return result, errors.Join(err, err1, err2, out.Close(), errs.Close())
}

// exitError is the status of a command line that a worker ran.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// runs runs a program like [testscript.TestScript.Exec], and this program in a worker.
func runs(ts *testscript.TestScript, name string, args ...string) error {
	if name != "teambridge" || !ts.Value(inside{}).(bool) || !own(ts) {
		return ts.Exec(name, args...)
	}
	stdin := field[string](ts, "stdin")
	o := order{Args: args, Dir: ts.MkAbs("."), Stdin: []byte(*stdin)}
	o.Env = append(append(o.Env, *field[[]string](ts, "env")...), "PWD="+o.Dir)
	*stdin = "" // for one program only
	result, err := o.run()
	ts.Check(err)
	_, err = ts.Stdout().Write(result.Stdout)
	_, err2 := ts.Stderr().Write(result.Stderr)
	ts.Check(errors.Join(err, err2))
	if result.Status != 0 {
		return exitError(result.Status)
	}
	return nil
}

// field returns a value that a script gives to programs, and for which it has no method.
func field[T any](ts *testscript.TestScript, name string) *T {
	f := reflect.ValueOf(ts).Elem().FieldByName(name)
	if f.Type() != reflect.TypeFor[T]() {
		panic("testscript.TestScript." + name + " is a " + f.Type().String())
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr()))
}

// own reports whether the teambridge in a script's $PATH is the program that workers run.
func own(ts *testscript.TestScript) bool {
	usual, err := exec.LookPath("teambridge")
	ts.Check(err)
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, "teambridge")); err == nil {
			return path == usual
		}
	}
	return false
}

// runsIn runs teambridge as the script's own commands start it, and returns its output and its status.
func runsIn(ts *testscript.TestScript, args []string) outcome {
	cmd := teambridge(ts, context.Background(), args)
	o := order{Args: args, Dir: cmd.Dir, Env: cmd.Env}
	result, err := o.run()
	ts.Check(err)
	return result
}
