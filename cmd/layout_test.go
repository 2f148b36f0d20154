// Package cmd_test checks the whole repository: the direction of imports, its size, and whether the names in
// documents exist.
package cmd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The tests run at the top of the module, where their paths begin.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// mayImport has the direction of imports, from the inside out: the packages of this module that a package may import.
// A package that is not listed may import none.
var mayImport = map[string][]string{
	"teams/atomicfile":         {},
	"teams/flock":              {},
	"teams/lockedfile":         {"teams/flock"},
	"teams/proc":               {},
	"teams/excerpt":            {},
	"teams/rawjson":            {},
	"teams/sharedfile":         {},
	"teams/socket":             {},
	"teams/errtest":            {}, // only for tests
	"teams/winetest":           {}, // only for tests
	"teams/transcript":         {"teams/sharedfile"},
	"teams":                    {"teams/atomicfile", "teams/excerpt", "teams/lockedfile", "teams/proc", "teams/rawjson", "teams/transcript"},
	"teams/tasks":              {"teams", "teams/lockedfile", "teams/transcript"},
	"teams/teamstest":          {"inbox", "teams", "teams/lockedfile", "teams/watch"}, // only for tests
	"inbox":                    {"teams", "teams/lockedfile", "teams/rawjson"},
	"inbox/sqlite":             {},
	"inbox/ledger":             {"inbox", "inbox/sqlite", "teams", "teams/rawjson"},
	"inbox/ledger/ledgertest":  {"inbox/ledger", "inbox/sqlite/sqlitetest"}, // only for tests
	"inbox/journal":            {"inbox", "inbox/ledger", "inbox/sqlite", "teams", "teams/excerpt", "teams/rawjson", "teams/watch"},
	"inbox/mail":               {"inbox", "inbox/journal", "inbox/ledger", "teams", "teams/lockedfile"},
	"teams/watch":              {"teams/sharedfile"},
	"relay/agent":              {"relay/mode", "relay/wire"},
	"relay/mode":               {"teams/rawjson"},
	"relay/profile":            {},
	"relay/shell":              {},
	"relay/stophook":           {"relay/shell", "teams/rawjson", "teams/sharedfile"},
	"relay/pipe":               {"relay/mode"},
	"relay/tmux":               {"teams/proc"},
	"relay/wire":               {"teams/rawjson"},
	"relay/process":            {"relay/agent", "teams/proc"},
	"relay/claude":             {"relay/agent", "relay/claude/session", "relay/mode", "relay/pipe", "relay/process", "relay/profile", "relay/wire", "teams", "teams/rawjson", "teams/transcript"},
	"relay/terminal":           {"relay/agent", "relay/process"},
	"relay/handoff":            {"inbox", "inbox/ledger", "relay", "relay/agent", "relay/claude/interactive", "relay/terminal", "relay/mode"},
	"relay/claim":              {"inbox", "inbox/ledger"},
	"relay/toolcall":           {"relay/wire", "teams/excerpt"},
	"relay/claude/session":     {"relay/agent", "relay/toolcall", "relay/wire", "teams/transcript"},
	"relay/claude/interactive": {"inbox", "relay/agent", "relay/claude", "relay/mode", "relay/process", "relay/shell", "teams", "teams/atomicfile", "teams/sharedfile", "teams/transcript"},
	"relay/acp":                {"relay/agent", "relay/claude", "relay/codex", "relay/mode", "relay/pipe", "relay/process", "relay/qwen", "relay/toolcall", "relay/wire", "teams", "teams/atomicfile", "teams/flock", "teams/rawjson", "teams/transcript"},
	"relay/opencode":           {"relay/agent", "relay/mode", "relay/pipe", "relay/process", "relay/profile", "relay/toolcall", "relay/wire", "teams/atomicfile"},
	"relay/link":               {"inbox", "inbox/ledger", "teams", "teams/excerpt", "teams/rawjson"},
	"relay/link/nats":          {"relay/link", "teams/atomicfile"},
	"relay/link/nats/admin":    {"relay/link/nats"},
	"relay/link/hub":           {"relay/link/nats", "relay/link/nats/admin", "teams/atomicfile", "teams/flock"},
	"relay/delivery":           {},
	"relay/peer":               {"relay/delivery", "relay/process", "teams/atomicfile", "teams/flock", "teams/proc", "teams/rawjson", "teams/socket", "teams/transcript"},
	"relay/wake":               {"relay/delivery", "relay/process", "teams/atomicfile", "teams/flock", "teams/socket", "teams/transcript"},
	"relay/codex":              {"relay/delivery", "relay/process", "teams/flock", "teams/proc", "teams/sharedfile", "teams/transcript"},
	"relay/qwen":               {"relay/process", "teams/atomicfile", "teams/proc", "teams/sharedfile", "teams/transcript"},
	"relay/probe":              {"relay/peer", "relay/process", "relay/relaytest/model", "relay/terminal", "teams", "teams/transcript"},
	"relay/pane":               {"inbox", "inbox/ledger", "inbox/mail", "relay/codex", "relay/delivery", "relay/peer", "relay/pipe", "relay/process", "relay/qwen", "relay/tmux", "relay/wake", "teams", "teams/excerpt", "teams/lockedfile", "teams/transcript"},
	"relay/reply":              {"inbox", "inbox/ledger", "inbox/mail", "relay", "relay/agent", "relay/mode", "relay/pipe", "teams", "teams/rawjson"},
	"relay":                    {"inbox", "inbox/journal", "inbox/ledger", "relay/agent", "relay/claim", "relay/mode", "relay/pipe", "relay/wire", "teams", "teams/lockedfile", "teams/rawjson", "teams/watch"},
	"relay/runtimes":           {"inbox/ledger", "relay/acp", "relay/agent", "relay/claude", "relay/mode", "relay/opencode", "relay/process", "relay/profile", "teams"},
	"relay/fleet":              {"inbox", "inbox/journal", "inbox/ledger", "relay", "relay/agent", "relay/mode", "relay/pipe", "relay/reply", "relay/runtimes", "relay/wire", "teams", "teams/lockedfile"},
	"relay/dialog":             {"relay/agent", "relay/fleet", "teams/atomicfile", "teams/flock"},
	"relay/query":              {"inbox/ledger", "relay/agent", "relay/mode", "relay/process", "relay/runtimes", "relay/wire", "teams", "teams/rawjson"},
	"status":                   {"inbox", "inbox/journal", "inbox/ledger", "status/api", "teams", "teams/transcript"},
	"status/api":               {}, // plain structs and codes for a client to link
	"status/api/op":            {"status/api"},
	"status/supervisor":        {"status/api", "teams/atomicfile"},
	"status/plain":             {"teams/rawjson"}, // text for a terminal
	"status/view": {
		"inbox", "inbox/journal", "inbox/ledger", "inbox/mail", "relay", "relay/claude/interactive", "relay/claude/session", "relay/fleet", "relay/link", "relay/mode", "relay/pane", "relay/process", "relay/profile", "relay/runtimes", "relay/shell", "relay/tmux", "relay/toolcall", "relay/wire",
		"status", "status/api", "status/plain", "teams", "teams/lockedfile", "teams/tasks",
	},
	"status/attention": {
		"inbox", "inbox/journal", "inbox/ledger", "inbox/mail", "relay", "relay/dialog", "relay/fleet", "relay/link", "relay/pane", "relay/process", "relay/tmux", "relay/toolcall",
		"status", "status/api", "status/view", "teams", "teams/excerpt", "teams/lockedfile", "teams/tasks", "teams/transcript",
	},
	"status/alert": {"relay/shell", "status/api", "status/plain", "status/signals", "teams/atomicfile", "teams/excerpt", "teams/lockedfile", "teams/rawjson"},
	// The parts of the core, from the inside out. history, links and question do not import each other, and none
	// knows an operation: if one needs another, its options have a function or an interface for it.
	"status/signals": {},
	"status/local": {
		"inbox/journal", "inbox/ledger", "relay/pane", "relay/tmux",
		"status/api", "status/attention", "status/view", "teams", "teams/lockedfile",
	},
	"status/history": {
		"inbox", "inbox/journal", "inbox/ledger", "inbox/mail", "relay/claude/session", "relay/fleet", "relay/pane", "relay/runtimes", "relay/wire",
		"status", "status/api", "status/attention", "status/local", "status/signals", "status/view", "teams", "teams/rawjson", "teams/tasks", "teams/transcript", "teams/watch",
	},
	"status/links": {
		"inbox", "inbox/journal", "inbox/ledger", "inbox/mail", "relay/claim", "relay/link", "relay/link/nats", "relay/pane",
		"status/api", "status/local", "status/signals", "status/ssh", "status/view", "teams", "teams/lockedfile",
	},
	"status/question": {
		"inbox", "inbox/journal", "inbox/ledger", "inbox/mail", "relay/claude/session", "relay/wire",
		"status", "status/api", "teams",
	},
	"status/bridge": {
		"inbox", "inbox/journal", "inbox/ledger", "inbox/mail", "relay", "relay/agent", "relay/dialog", "relay/fleet", "relay/link", "relay/mode", "relay/pane", "relay/runtimes", "relay/shell", "relay/tmux",
		"status", "status/api", "status/doctor", "status/history", "status/links", "status/local", "status/plain", "status/question", "status/view", "teams", "teams/transcript",
	},
	"status/service": {
		"inbox", "inbox/journal", "inbox/ledger", "inbox/mail", "relay", "relay/claude/session", "relay/fleet", "relay/link", "relay/pane", "relay/wire",
		"status", "status/alert", "status/api", "status/attention", "status/bridge", "status/history", "status/links", "status/local", "status/plain", "status/signals", "status/view", "teams", "teams/lockedfile", "teams/tasks", "teams/transcript", "teams/watch",
	},
	"status/bridge/bridgetest": {"inbox", "inbox/journal", "inbox/ledger", "relay/link/nats", "relay/relaytest/simagent", "relay", "status/api", "status/view", "teams/teamstest", "teams/transcript"}, // only for tests
	"status/doctor": {
		"inbox", "inbox/journal", "inbox/ledger", "inbox/mail", "inbox/sqlite", "plugin", "relay", "relay/agent", "relay/claude", "relay/link", "relay/link/nats", "relay/opencode", "relay/pane", "relay/process", "relay/runtimes", "relay/shell", "relay/stophook", "relay/tmux",
		"status/alert", "status/api", "status/client", "status/plain", "status/supervisor", "status/view", "teams", "teams/atomicfile", "teams/flock", "teams/lockedfile", "teams/sharedfile", "teams/transcript",
	},
	"status/server": {
		"inbox", "relay",
		"status/api", "status/api/op", "status/bridge", "status/history", "status/service", "status/view", "teams", "teams/atomicfile", "teams/lockedfile", "teams/rawjson", "teams/socket",
	},
	"status/server/page":     {}, // only files
	"status/client":          {"status/api", "status/api/op", "teams/flock"},
	"status/mcp":             {"status/api", "status/view", "teams/rawjson"},
	"status/ssh":             {"relay/shell", "status/api"},
	"plugin":                 {"relay/stophook", "teams/rawjson", "teams/sharedfile"},
	"cmd/setup":              {"plugin", "relay/dialog", "relay/qwen", "relay/shell", "relay/stophook", "relay/wake", "teams", "teams/atomicfile", "teams/lockedfile", "teams/rawjson", "teams/sharedfile"},
	"status/server/document": {"status/api", "status/api/op"}, // only for go generate
	"cmd/demo": {
		"inbox", "inbox/journal", "inbox/ledger", "relay", "relay/claude", "relay/fleet", "relay/shell",
		"status/api", "status/bridge", "status/client", "status/plain", "status/server", "status/server/page", "status/view", "teams", "teams/lockedfile", "teams/proc", "teams/rawjson",
		"teams/sharedfile", "teams/transcript",
	},
	"cmd/stdio":            {"status/plain"},
	"cmd/teambridge":       {"*"},
	"cmd/teambridge-probe": {"cmd/stdio", "relay/probe", "status/api", "status/doctor", "status/plain", "teams"},
	"cmd/teambridge-hub":   {"relay/link/hub", "relay/link/nats", "relay/link/nats/admin", "relay/shell", "status/api", "status/ssh", "status/supervisor"},

	// Only for tests, except for the model.
	"relay/relaytest/simagent":         {"teams"}, // only the table of versions: a witness must not share our mistakes
	"relay/relaytest/simacp":           {},
	"relay/relaytest/model":            {"relay/process"},
	"relay/relaytest/standin":          {"relay/relaytest/model", "relay/relaytest/simchild", "relay/process", "teams"}, // for versions
	"relay/relaytest/claudedir":        {},
	"relay/relaytest/killtest":         {"teams/winetest"},
	"relay/relaytest/simchild":         {"relay/relaytest/claudedir", "relay/relaytest/simagent", "teams"}, // like simagent
	"relay/relaytest/simchild/program": {"relay/relaytest/simacp", "relay/relaytest/simchild"},
	"relay/relaytest/simsession":       {"relay/qwen", "relay/relaytest/claudedir", "relay/relaytest/simagent", "teams", "teams/transcript"}, // the names and lines of its files, and the version in them
	"relay/relaytest/probetest":        {"relay/probe", "relay/process", "relay/relaytest/claudedir", "teams"},
}

// onlyUser has the package that alone may import a dependency, so that replacing the dependency changes one package.
var onlyUser = map[string][]string{
	"golang.org/x/sys":                            {"teams/lockedfile", "relay/process", "relay/terminal", "relay/tmux"},
	"golang.org/x/time":                           {"relay/peer"},
	"github.com/creack/pty":                       {"relay/terminal"},
	"github.com/gofrs/flock":                      {"teams/flock"},
	"github.com/go-json-experiment/json/jsontext": {"teams/rawjson"},
	"github.com/goccy/go-yaml":                    {"relay/profile"},
	"github.com/fsnotify/fsnotify":                {"teams/watch"},
	"github.com/google/renameio":                  {"teams/atomicfile"},
	"zombiezen.com/go/sqlite":                     {"inbox/sqlite"},
	"github.com/spf13/cobra":                      {"cmd/teambridge", "cmd/teambridge-hub", "cmd/teambridge-probe"},
	"github.com/spf13/pflag":                      {"cmd/teambridge", "cmd/teambridge-hub"},
	"github.com/modelcontextprotocol/go-sdk":      {"status/mcp"},
	"github.com/coder/websocket":                  {"relay/codex", "relay/relaytest/simcodex"},
	"github.com/nats-io/nats.go":                  {"relay/link/nats", "relay/link/nats/admin"},
	"github.com/nats-io/nkeys":                    {"relay/link/nats"},
	"github.com/nats-io/nats-server":              {"relay/link/hub"}, // so that no other binary has it
}

func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	listed, module := listPackages(t), modulePath(t)
	for name, p := range listed {
		for _, imp := range p.Imports {
			if ours, ok := strings.CutPrefix(imp, module); ok {
				if may := mayImport[name]; !slices.Contains(may, ours) && !slices.Contains(may, "*") {
					t.Errorf("%s imports %s, against the direction of the layout", name, ours)
				}
			}
			for dep, users := range onlyUser {
				if (imp == dep || strings.HasPrefix(imp, dep+"/")) && !slices.Contains(users, name) {
					t.Errorf("%s imports %s, which belongs to %s alone", name, imp, users)
				}
			}
		}
	}
	if len(listed) < len(mayImport) {
		t.Errorf("go list gave %d packages; the layout has at least %d", len(listed), len(mayImport))
	}
}

// The programs contain no simulated agents of the tests. Only teambridge-probe needs the stand-in for the model.
func TestProgramsHaveNoTestSupport(t *testing.T) {
	t.Parallel()
	module := modulePath(t)
	for _, program := range []string{"cmd/teambridge", "cmd/teambridge-hub"} {
		for _, path := range listPackages(t)[program].Deps {
			if name, ours := strings.CutPrefix(path, module); ours && (strings.HasPrefix(name, "relay/relaytest/") || strings.HasSuffix(name, "test")) {
				t.Errorf("%s links %s, which is for tests", program, name)
			}
		}
	}
}

// A Go program that talks to the service links only the types of this module and the lock that shows whether a
// service runs, and no database or watcher.
func TestClientIsSmall(t *testing.T) {
	t.Parallel()
	module := modulePath(t)
	for _, dep := range listPackages(t)["status/client"].Deps {
		first, _, _ := strings.Cut(dep, "/")
		switch {
		case dep == module+"status/api", dep == module+"status/api/op", dep == module+"teams/flock":
		case dep == "github.com/gofrs/flock", strings.HasPrefix(dep, "golang.org/x/sys/"):
		case strings.HasPrefix(dep, module), strings.Contains(first, "."): // a domain, so not of the standard library
			t.Errorf("status/client is built with %s", dep)
		}
	}
}

// modulePath is the path of the module, with a slash at the end.
func modulePath(t *testing.T) string {
	t.Helper()
	line, _, _ := strings.Cut(textOf(t, "go.mod"), "\n")
	return strings.TrimPrefix(line, "module ") + "/"
}

// A listed is the output of the go command for a package.
type listed struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, Deps                      []string
}

// listPackages returns the packages of the module, by their path from its top.
func listPackages(t *testing.T) map[string]listed {
	t.Helper()
	sources(t) // go test keeps a result until a file changes that the test itself has read
	out, err := goList()
	if err != nil {
		t.Fatal(err)
	}
	module, packages := modulePath(t), map[string]listed{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[strings.TrimPrefix(p.ImportPath, module)] = p
	}
}

var goList = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,Deps", "./...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, &stderr)
	}
	return string(out), nil
})
