package cmd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The repository does not grow beyond these limits. They are only ever lowered: a limit must be lowered when its
// count is more than a twentieth below it.
func TestLimits(t *testing.T) {
	t.Parallel()
	product, tests := productAndTests(t)
	for _, l := range []struct {
		of           string
		count, limit int
	}{
		{"lines of teams", product.lines("teams"), 9_982},
		{"lines of inbox", product.lines("inbox"), 13_216},
		{"lines of relay", product.lines("relay"), 41_636},
		{"lines of status", product.lines("status"), 29_176},
		{"lines of cmd", product.lines("cmd", "plugin"), 16_406},
		{"lines of tests", tests, 105_844},
		{"lines of scripts", linesOf(t, "testdata/script/*.txtar"), 7_173},
		{"methods of the widest type of the core", product.widest("status/attention", "status/local", "status/history", "status/links", "status/question", "status/bridge", "status/service"), 35},
		{"methods of the widest type of the databases", product.widest("inbox/ledger", "inbox/journal"), 22},
		{"methods of the widest type of the commands", product.widest("cmd/teambridge", "cmd/setup"), 40},
		{"methods of the widest type of relay/pane", product.widest("relay/pane"), 22},
		{"methods of inbox/mail.Sender", product.methods("inbox/mail", "Sender"), 40},
		{"methods of status/client.Client", product.methods("status/client", "Client"), 10},
		{"words for the state of a message", product.stateWords(), 111},
		{"routes of the API", routesOfTheAPI(t), 65},
		{"flags of cmd/teambridge", product.flags("cmd/teambridge"), 110},
	} {
		t.Logf("%6d %s", l.count, l.of)
		switch {
		case l.count > l.limit:
			t.Errorf("%d %s: the limit is %d", l.count, l.of, l.limit)
		case l.count < l.limit-l.limit/20:
			t.Errorf("%d %s, well under the limit: lower it from %d", l.count, l.of, l.limit)
		}
	}
}

// packages has the texts of the Go files of packages, by the path from the top of the module.
type packages map[string][]string

// productAndTests returns the packages of the programs, and the number of lines of all tests.
func productAndTests(t *testing.T) (product packages, tests int) {
	t.Helper()
	listed, module := listPackages(t), modulePath(t)
	product = packages{}
	for name, p := range listed {
		for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
			tests += strings.Count(textOf(t, filepath.Join(p.Dir, file)), "\n")
		}
		if !strings.HasPrefix(name, "cmd/") {
			continue
		}
		for _, path := range append(p.Deps, p.ImportPath) {
			name, ours := strings.CutPrefix(path, module)
			if !ours || product[name] != nil {
				continue
			}
			for _, file := range listed[name].GoFiles {
				product[name] = append(product[name], textOf(t, filepath.Join(listed[name].Dir, file)))
			}
		}
	}
	return product, tests
}

// lines returns the number of lines of the packages in some top-level folders.
func (p packages) lines(folders ...string) (n int) {
	for name, files := range p {
		for _, folder := range folders {
			if name == folder || strings.HasPrefix(name, folder+"/") {
				n += strings.Count(strings.Join(files, ""), "\n")
			}
		}
	}
	return n
}

// methods returns the number of methods of a type in a package.
func (p packages) methods(name, of string) int {
	return len(regexp.MustCompile(`(?m)^func \(\w+ \*?`+of+`\)`).FindAllString(strings.Join(p[name], ""), -1))
}

// widest returns the number of methods of the type with the most methods in some packages.
func (p packages) widest(names ...string) (most int) {
	receiver := regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)\)`)
	for _, name := range names {
		methods := map[string]int{}
		for _, m := range receiver.FindAllStringSubmatch(strings.Join(p[name], ""), -1) {
			methods[m[1]]++
			most = max(most, methods[m[1]])
		}
	}
	return most
}

// flags returns the number of flags of the commands in a package.
func (p packages) flags(name string) int {
	definition := regexp.MustCompile(`\b(?:[fF]lags(?:\(\))?|f)\.(?:Bool|Int|Int64|String|StringArray|StringSlice)?VarP?\(|\bdurationFlag\(cmd, [^,]+, "`)
	return len(definition.FindAllString(strings.Join(p[name], ""), -1))
}

// stateWords returns the number of constants that name a state of a message, or of its delivery or task.
func (p packages) stateWords() (n int) {
	word := regexp.MustCompile(`(?m)^\s+\w+\s+\w*(?:State|Stage|Status|Task|Result|Reason|Outcome|Fate|Kind|Basis)\s+= "`)
	for name, files := range p {
		if strings.HasPrefix(name, "inbox") || strings.HasPrefix(name, "relay") {
			n += len(word.FindAllString(strings.Join(files, ""), -1))
		}
	}
	return n
}

// routesOfTheAPI returns the number of operations in openapi.json.
func routesOfTheAPI(t *testing.T) (n int) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(textOf(t, "status/server/openapi.json")), &document); err != nil {
		t.Fatal(err)
	}
	for _, operations := range document.Paths {
		for method := range operations {
			if method != "parameters" {
				n++
			}
		}
	}
	return n
}

// linesOf returns the number of lines of the files that match a pattern.
func linesOf(t *testing.T, pattern string) (n int) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		n += strings.Count(textOf(t, file), "\n")
	}
	return n
}

func textOf(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
