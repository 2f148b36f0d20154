package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// A command takes milliseconds, so no package that it links, and no package that only these tests link, may do much
// before main runs: scripts start this program hundreds of times. The test counts allocations, which do not depend on
// how busy the machine is: compiling a regular expression takes 50 or more, a table of names thousands.
func TestPackagesInitializeQuickly(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("teambridge", "version") // the program of the scripts
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, trace)
	}
	slower := map[string]string{ // a third of the time of a start
		"github.com/nats-io/nats-server/v2/server": "build teambridge-hub",
		"github.com/google/go-cmp/cmp":             "compare with slices.Equal or reflect.DeepEqual",
		"github.com/russross/blackfriday/v2":       "write without Markdown",
	}
	seen := 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) allocs$`).FindAllStringSubmatch(string(trace), -1) {
		switch m[1] {
		case "github.com/nats-io/nats%2ego":
			continue // 230; the client of links
		case "github.com/google/jsonschema-go/jsonschema", "encoding/gob", "github.com/modelcontextprotocol/go-sdk/mcp":
			continue // 300, 370 and 180; the official implementation of MCP
		}
		seen++
		if advice, slow := slower[m[1]]; slow {
			t.Errorf("the tests are built with %s: %s", m[1], advice)
		} else if n, err := strconv.Atoi(m[2]); err != nil || n > 150 {
			t.Errorf("%s allocates %s times before main runs (%v); at most 150 are allowed", m[1], m[2], err)
		}
	}
	if seen < 30 {
		t.Errorf("%d packages in the trace:\n%s", seen, trace)
	}
}
