package cmd_test

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// documents has the paths of the documents whose tests, files and variables are checked.
var documents = sync.OnceValue(func() []string {
	pages, _ := filepath.Glob(filepath.Join(".github", "guide", "*.md")) // the pattern is right
	return append(pages,
		"README.md", ".github/GUIDE.md", ".github/PROMISES.md", "testdata/contract/CONTRACT.md", "testdata/contract/OPENCODE.md", "testdata/contract/CODEX.md", "testdata/contract/QWEN.md", ".github/ARCHITECTURE.md", ".github/CONTRIBUTING.md", ".github/TESTING.md", ".github/SECURITY.md",
	)
})

// goFiles has the text of each Go file of the module, by its path from the top. They are read once.
var goFiles = sync.OnceValues(func() (map[string]string, error) {
	top := os.DirFS(".")
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
	return files, err
})

func sources(t *testing.T) map[string]string {
	t.Helper()
	files, err := goFiles()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// testName matches the name of a test, a fuzz test or a benchmark.
var testName = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)

// testsIn returns the tests of each package, by its path from the top of the module.
func testsIn(files map[string]string) map[string][]string {
	tests := map[string][]string{}
	for file, text := range files {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		for line := range strings.Lines(text) {
			if after, ok := strings.CutPrefix(line, "func "); ok && strings.HasPrefix(after[len(identifier(after)):], "(") && testName.MatchString(identifier(after)) {
				tests[path.Dir(file)] = append(tests[path.Dir(file)], identifier(after))
			}
		}
	}
	return tests
}

// identifier returns the identifier at the beginning of a text.
func identifier(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return text[:max(end, 0)]
}

// declarations returns the names that belong to each owner: a package, by the last part of its path, or a type. For a
// type, these are the names in its package.
func declarations(files map[string]string) map[string]map[string]bool {
	names := map[string]map[string]bool{} // by directory
	owners := map[string][]string{}
	for file, text := range files {
		dir := path.Dir(file)
		if names[dir] == nil {
			names[dir] = map[string]bool{}
			owners[path.Base(dir)] = append(owners[path.Base(dir)], dir)
		}
		for line := range strings.Lines(text) {
			rest, method := strings.CutPrefix(line, "func (")
			if method {
				_, rest, method = strings.Cut(rest, ") ")
			}
			for _, before := range []string{"func ", "type ", "var ", "const ", "\t"} {
				if after, ok := strings.CutPrefix(line, before); ok && !method {
					rest, method = after, true
				}
			}
			if name := identifier(rest); method && name != "" {
				names[dir][name] = true
				if strings.HasPrefix(line, "type ") {
					owners[name] = append(owners[name], dir)
				}
			}
		}
	}
	all := map[string]map[string]bool{}
	for owner, dirs := range owners {
		all[owner] = map[string]bool{}
		for _, dir := range dirs {
			maps.Copy(all[owner], names[dir])
		}
	}
	return all
}

// Every test, function, environment variable of tests, and file that a document names exists.
func TestDocumentsNameWhatExists(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it reads all sources")
	}
	t.Parallel()
	files := sources(t)
	declared := declarations(files)
	inSources := func(name string) bool {
		for _, text := range files {
			if strings.Contains(text, name) {
				return true
			}
		}
		return false
	}
	var names []string
	for _, tests := range testsIn(files) {
		names = append(names, tests...)
	}
	variable := regexp.MustCompile(`\b[A-Z]+_TEST_[A-Z_]+\b|\bTEAMBRIDGE_[A-Z_]+\b`)
	reference := regexp.MustCompile("`([a-z]\\w*)\\.(?:\\w+\\.)?(\\w+)`")
	extensions := []string{"go", "md", "json", "db", "jsonl", "token", "txtar", "yml", "js", "lock", "sock", "example"}
	link := regexp.MustCompile(`\]\(([^)#:]+)\)|<img src="([^":]+)"`)
	for _, document := range documents() {
		data, err := os.ReadFile(filepath.FromSlash(document))
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
			if !inSources(name) {
				t.Errorf("%s names %s: no Go file does", document, name)
			}
		}
		for _, m := range reference.FindAllStringSubmatch(string(data), -1) {
			if !slices.Contains(extensions, m[2]) && !strings.HasPrefix(document, "testdata/contract/") && !declared[m[1]][m[2]] {
				t.Errorf("%s names %s: it is not declared", document, m[0])
			}
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			target := filepath.FromSlash(path.Join(path.Dir(document), m[1]+m[2]))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", document, m[1]+m[2], err)
			}
		}
	}
}

// Each promise has tests in the packages that it names, and a command that runs some of them.
func TestPromisesHaveTests(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it reads all sources")
	}
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(".github", "PROMISES.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, table, found := strings.Cut(string(data), "\n## The tests of each promise\n")
	if !found {
		t.Fatal("there is no table of the promises and their tests")
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
			script, err := os.ReadFile(filepath.Join(".ci", "long"))
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

// TESTING.md has each command of the scripts in its table, and no other.
func TestScriptCommandsAreDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join("cmd", "teambridge", "script_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(source), "\t\tCmds: ")
	list, _, _ = strings.Cut(list, "\n\t\t},\n")
	var commands []string
	for _, m := range regexp.MustCompile(`(?m)^\t+"(\w+)": `).FindAllStringSubmatch(list, -1) {
		commands = append(commands, m[1])
	}
	data, err := os.ReadFile(filepath.Join(".github", "TESTING.md"))
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
		t.Errorf("scripts have the commands\n%q\nTESTING.md documents\n%q", commands, documented)
	}
}

// The examples of the guide are the same as those in examples.txtar.
func TestGuideExamples(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(filepath.Join("testdata", "script", "examples.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join(".github", "guide", "headless.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(script), "-- example.sh --\n")
	if !found || !strings.Contains(string(guide)+"\n", "\n\n"+example+"\n") {
		t.Errorf("the guide does not show:\n%s", example)
	}
}

// No document has the marks of a merge conflict.
func TestDocumentsAreMerged(t *testing.T) {
	t.Parallel()
	for _, name := range documents() {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range []string{"<<<<<<< ", ">>>>>>> "} {
			if strings.Contains("\n"+string(data), "\n"+mark) {
				t.Errorf("%s has a line that begins with %q", name, mark)
			}
		}
	}
}

// The README names the versions of Claude Code that the tests run.
func TestReadmeNamesVersions(t *testing.T) {
	list, err := os.ReadFile(".ci/versions")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	// lane returns the versions in a lane, as the README calls them.
	lane := func(name string) (versions []string) {
		for _, m := range regexp.MustCompile(`(?m)^(\S+) +`+name+`\b`).FindAllStringSubmatch(string(list), -1) {
			versions = append(versions, strings.Replace(m[1], "latest", "the newest version", 1))
		}
		return versions
	}
	text := strings.Join(strings.Fields(string(readme)), " ")
	for before, versions := range map[string][]string{"against Claude Code ": lane("ci"), "from time to time against ": lane("long")} {
		last := len(versions) - 1
		if want := before + strings.Join(versions[:last], ", ") + " and " + versions[last]; !strings.Contains(text, want) {
			t.Errorf("README.md does not say %q", want)
		}
	}
}
