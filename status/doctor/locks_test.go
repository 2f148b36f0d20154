package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"teambridge/teams/flock"
)

// It is not parallel: a process that another test starts has all files open briefly.
func TestLockUser(t *testing.T) {
	ended := exec.Command(os.Args[0], "-test.run=^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	self := strconv.Itoa(os.Getpid())
	for name, test := range map[string]struct {
		file, content string
		held, open    bool
		age           time.Duration
		want          string
	}{
		"nobody's file":          {file: "lock"},
		"nobody's directory":     {file: "lock/owner"},
		"a process that ended":   {file: "lock/pid", content: strconv.Itoa(ended.Process.Pid) + "\n"},
		"young":                  {file: "lock", age: -time.Minute, want: "changed less than 10s ago"},
		"young in a directory":   {file: "lock/owner", age: -time.Minute, want: "changed less than 10s ago"},
		"locked":                 {file: "lock", held: true, want: "holds its lock"},
		"locked in a directory":  {file: "lock/owner", held: true, want: "holds its lock"},
		"open":                   {file: "lock", open: true, want: "has it open"},
		"its process runs":       {file: "lock", content: self + "\nmachine\n", want: "process " + self},
		"in a directory":         {file: "lock/pid", content: self, want: "process " + self},
		"the name is its number": {file: "lock/" + self, want: "process " + self},
	} {
		t.Run(name, func(t *testing.T) {
			if test.open && runtime.GOOS != "linux" {
				t.Skip("seen on Linux only")
			}
			dir := t.TempDir()
			path := filepath.Join(dir, filepath.FromSlash(test.file))
			must(os.MkdirAll(filepath.Dir(path), 0o700))
			must(os.WriteFile(path, []byte(test.content), 0o600))
			old := time.Now().Add(-time.Minute - test.age)
			must(os.Chtimes(path, old, old))
			lock := filepath.Join(dir, "lock")
			if lock != path { // only its content may be young
				must(os.Chtimes(lock, time.Now().Add(-time.Minute), time.Now().Add(-time.Minute)))
			}
			if test.held {
				unlock, ok, err := flock.TryLock(path)
				if err != nil || !ok {
					t.Fatalf("locked %t, %v", ok, err)
				}
				defer unlock()
			}
			if test.open {
				f, err := os.Open(path)
				must(err)
				user := exec.Command("cat") // until its input is closed
				user.ExtraFiles = []*os.File{f}
				in, err := user.StdinPipe()
				must(err)
				must(user.Start())
				must(f.Close())
				defer func() { must(in.Close()); must(user.Wait()) }()
			}
			if got := lockUser(lock); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
