package simagent

import (
	"os"
	"strings"
	"testing"
)

func TestStartTime(t *testing.T) {
	t.Parallel()
	const rest = " R 5714 5714 3251 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 67058 3133440 413"
	for _, name := range []string{"(cat)", "(a b)", "(x) R 1 2 3)", "()"} {
		got, err := startTime("5731 " + name + rest)
		if err != nil || got != "67058" {
			t.Errorf("%s: got %q, %v, want 67058", name, got, err)
		}
	}
	for _, stat := range []string{"", "5731", "5731 (cat) R 1"} {
		if got, err := startTime(stat); err == nil {
			t.Errorf("%q: got %q, want an error", stat, got)
		}
	}
}

func TestCurrentProcess(t *testing.T) {
	t.Parallel()
	got, err := CurrentProcess()
	if err != nil {
		t.Fatal(err)
	}
	host, space, ok := strings.Cut(got.Space, "#")
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got.PID != os.Getpid() || got.Start == "" || !ok || host != name || !strings.HasPrefix(space, "pid:[") {
		t.Errorf("got %+v", got)
	}
}
