package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/standin"
	"teambridge/teams/teamstest"
)

// walk returns the commands of a section of the README: its indented lines, without
// those that begin with one of the words that are left out.
func walk(t *testing.T, section string, out ...string) (commands []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(data), "\n## "+section+"\n")
	if !found {
		t.Fatalf("the README has no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	open := ""
	for line := range strings.Lines(text) {
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !ok || slices.ContainsFunc(out, func(word string) bool { return strings.HasPrefix(line, word) }) {
			continue
		}
		open += line
		if strings.HasSuffix(line, `\`) {
			open += "\n"
			continue
		}
		commands, open = append(commands, open), ""
	}
	return commands
}

// The walk through the service in the README is what it says: each of its commands
// does something, with the socket and the port in it replaced by free ones.
func TestReadmeOfTheService(t *testing.T) {
	t.Parallel()
	if os.Getenv(standin.EnvInterop) == "" {
		t.Skip("curl is not used: " + standin.EnvInterop + " is not set")
	}
	for _, name := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	home := teamstest.StateDir(t)
	if err := os.Rename(teamstest.Captured(t, teamstest.OlderVersion).Root.Path(), filepath.Join(home, ".claude")); err != nil {
		t.Fatal(err)
	}
	// Streams have no end by themselves.
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte("max-time = 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const ended = "28" // curl's, where max-time was over
	want := []struct{ status, out string }{
		{"0", "serving " + address},
		{"0", ""},
		{"0", `"team":"myteam"`},
		{"0", `"member":"worker","state":`},
		{"0", `"id":"review-12","state":"verified","deduplicated":false`},
		{"0", `"id":"review-12","state":"verified"`},
		{"0", `"text":"please review task 12"`},
		{"0", `"hits":[{"team":"myteam"`},
		{ended, "event: snapshot\n"},
		{"0", ""},
		{"0", `"team":"myteam"`},
		{ended, `"text":"please review task 12"`},
	}
	commands := walk(t, "The service", "teambridge service", "teambridge ui")
	if len(commands) != len(want) {
		t.Fatalf("there are %d commands, and %d are known here: %q", len(commands), len(want), commands)
	}
	shell := exec.Command("bash")
	shell.Dir = home
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"CLAUDE_CONFIG_DIR", "TEAMBRIDGE_STATE", "XDG_STATE_HOME", "CURL_HOME"}, name) {
			shell.Env = append(shell.Env, v)
		}
	}
	shell.Env = append(shell.Env, "HOME="+home, "GORACE=atexit_sleep_ms=0")
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	shell.Stdout, shell.Stderr = w, w
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	over := time.AfterFunc(patience, func() { _ = shell.Process.Kill() })
	defer over.Stop()
	gone := make(chan error, 1)
	go func() {
		err := shell.Wait()
		_ = w.Close()
		gone <- err
	}()
	lines := bufio.NewReader(r)
	// until reads what is said up to a line that has text in it.
	until := func(text string) (said string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			said += line
			if err != nil {
				t.Fatalf("%v, waiting for %q: %s", err, text, said)
			}
			if strings.Contains(line, text) {
				return said
			}
		}
	}
	for i, command := range commands {
		fmt.Fprintln(in, strings.NewReplacer("/tmp/tb.sock", filepath.Join(home, "tb.sock"), "127.0.0.1:7420", address).Replace(command))
		if i == 0 {
			until(want[0].out) // a person waits for that, too
		}
		fmt.Fprintln(in, `s=$?; echo; echo "ended with $s "`)
		said := until("ended with ")
		if !strings.HasSuffix(said, "\nended with "+want[i].status+" \n") || i > 0 && !strings.Contains(said, want[i].out) {
			t.Errorf("%s\nsays\n%s\nwant %q, %q", command, said, want[i].out, want[i].status)
		}
	}
	fmt.Fprintln(in, "kill %1; wait %1; exit $?")
	_, _ = io.Copy(io.Discard, lines)
	if err := <-gone; err != nil {
		t.Errorf("the service ended with %v", err)
	}
}

// documents are checked for the tests, files and variables that they name.
var documents = []string{
	"README.md", "testdata/contract/CONTRACT.md", ".github/ARCHITECTURE.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md",
}

// sources returns the Go files of the module, by their path from its top.
func sources(t *testing.T) map[string]string {
	t.Helper()
	top := os.DirFS(filepath.Join("..", ".."))
	files := map[string]string{}
	err := fs.WalkDir(top, ".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "." && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		data, err := fs.ReadFile(top, path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// testName matches the name of a test, a fuzz test or a benchmark.
var testName = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)

// testsIn returns the tests of each package, by its path from the top of the module.
func testsIn(files map[string]string) map[string][]string {
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	tests := map[string][]string{}
	for file, text := range files {
		if strings.HasSuffix(file, "_test.go") {
			for _, m := range function.FindAllStringSubmatch(text, -1) {
				tests[path.Dir(file)] = append(tests[path.Dir(file)], m[1])
			}
		}
	}
	return tests
}

// declared reports whether a package called owner, or one that declares a type called
// owner, declares name.
func declared(files map[string]string, owner, name string) bool {
	var packages []string
	for file, text := range files {
		if dir := path.Dir(file); path.Base(dir) == owner || strings.Contains(text, "\ntype "+owner+" ") {
			packages = append(packages, dir)
		}
	}
	declaration := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t)` + name + `\b`)
	for file, text := range files {
		if slices.Contains(packages, path.Dir(file)) && declaration.MatchString(text) {
			return true
		}
	}
	return false
}

// Whatever test, function, environment variable of tests or file a document names
// exists.
func TestDocumentsNameWhatExists(t *testing.T) {
	t.Parallel()
	files := sources(t)
	var all string
	for _, text := range files {
		all += text
	}
	var names []string
	for _, tests := range testsIn(files) {
		names = append(names, tests...)
	}
	variable := regexp.MustCompile(`\b[A-Z]+_TEST_[A-Z_]+\b|\bTEAMBRIDGE_[A-Z_]+\b`)
	reference := regexp.MustCompile("`([a-z]\\w*)\\.(?:\\w+\\.)?(\\w+)`")
	extensions := []string{"go", "md", "json", "db", "jsonl", "token", "txtar", "yml", "js", "lock", "sock", "example"}
	link := regexp.MustCompile(`\]\(([^)#:]+)\)|<img src="([^":]+)"`)
	for _, document := range documents {
		data, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(document)))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, name := range testName.FindAllString(string(data), -1) {
			if !slices.Contains(names, name) {
				t.Errorf("%s names %s: there is no such test", document, name)
			}
		}
		for _, name := range variable.FindAllString(string(data), -1) {
			if !strings.Contains(all, name) {
				t.Errorf("%s names %s: no Go file does", document, name)
			}
		}
		for _, m := range reference.FindAllStringSubmatch(string(data), -1) {
			if !slices.Contains(extensions, m[2]) && !strings.HasSuffix(document, "CONTRACT.md") && !declared(files, m[1], m[2]) {
				t.Errorf("%s names %s: it is not declared", document, m[0])
			}
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			target := filepath.Join("..", "..", filepath.FromSlash(path.Join(path.Dir(document), m[1]+m[2])))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", document, m[1]+m[2], err)
			}
		}
	}
}

// Each promise of the README has tests, which are in the packages that it says, and a
// command that runs some of them.
func TestPromisesHaveTests(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "\n## What is promised\n")
	section, _, _ = strings.Cut(section, "\n## ")
	text, table, found := strings.Cut(section, "\n### The tests of each promise\n")
	if !found {
		t.Fatal("the README has no table of the promises and their tests")
	}
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | "); len(cells) == 3 {
			rows[strings.TrimSpace(cells[0])] = cells[1:]
		}
	}
	delete(rows, "promise")
	delete(rows, "---")
	tests := testsIn(sources(t))
	for _, m := range regexp.MustCompile(`(?ms)^- \*\*(.+?)\*\*`).FindAllStringSubmatch(text, -1) {
		promise := strings.TrimRight(strings.Join(strings.Fields(m[1]), " "), ".,:")
		row, ok := rows[promise]
		delete(rows, promise)
		if !ok {
			t.Errorf("%q is promised, and the table has no tests of it", promise)
			continue
		}
		for _, part := range strings.Split(row[0], "; ") {
			pkg, named, _ := strings.Cut(strings.TrimSpace(part), ": ")
			pkg = strings.Trim(pkg, "`")
			listed := testName.FindAllString(named, -1)
			if len(listed) == 0 {
				t.Errorf("%q: no test is named in %q", promise, part)
			}
			for _, name := range listed {
				if !slices.Contains(tests[pkg], name) {
					t.Errorf("%q: package %s has no %s", promise, pkg, name)
				}
			}
		}
		command := row[1]
		if lane, ok := strings.CutPrefix(strings.Trim(strings.TrimSpace(command), "`"), ".ci/long "); ok {
			script, err := os.ReadFile(filepath.Join("..", "..", ".ci", "long"))
			if err != nil || !strings.Contains(string(script), "\n"+lane+")\n") {
				t.Errorf("%q: .ci/long has no %s: %v", promise, lane, err)
			}
			continue
		}
		named := testName.FindString(command)
		pkg := regexp.MustCompile("\\./([a-z/]+)`").FindStringSubmatch(command)
		if pkg == nil || !slices.Contains(tests[pkg[1]], named) {
			t.Errorf("%q: the command runs no test: %s", promise, command)
		}
	}
	for promise := range rows {
		t.Errorf("the table has tests of %q, which is not promised", promise)
	}
}

// Each command that scripts have is in the table of CONTRIBUTING.md, and no other.
func TestScriptCommandsAreDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("script_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(source), "\t\tCmds: ")
	list, _, _ = strings.Cut(list, "\n\t\t},\n")
	var commands []string
	for _, m := range regexp.MustCompile(`(?m)^\t+"(\w+)": `).FindAllStringSubmatch(list, -1) {
		commands = append(commands, m[1])
	}
	data, err := os.ReadFile(filepath.Join("..", "..", ".github", "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "\n## Scripts\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var documented []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") && len(cells) == 2 {
			for _, m := range regexp.MustCompile("`(\\w+)[ `]").FindAllStringSubmatch(cells[0]+" ", -1) {
				documented = append(documented, m[1])
			}
		}
	}
	slices.Sort(commands)
	slices.Sort(documented)
	if len(commands) == 0 || !slices.Equal(commands, documented) {
		t.Errorf("scripts have the commands\n%q\nCONTRIBUTING.md documents\n%q", commands, documented)
	}
}
