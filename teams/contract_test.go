package teams

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The table of versions in CONTRACT.md is the one that the code goes by.
func TestContractVersions(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "contract", "CONTRACT.md"))
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]\w+) \| (2\.\d+\.\d+) \| (2\.\d+\.\d+) \|`).FindAllStringSubmatch(string(data), -1) {
		written[row[1]] = row[2] + " without, " + row[3] + " with"
	}
	names := traitNames(t)
	if len(names) != len(changes) {
		t.Errorf("version.go declares %d traits, and knows the versions of %d", len(names), len(changes))
	}
	for trait, c := range changes {
		name := names[trait]
		if got, want := written[name], fmt.Sprintf("%s without, %s with", c.without, c.with); got != want {
			t.Errorf("%s: CONTRACT.md has %q, version.go %q", name, got, want)
		}
		delete(written, name)
	}
	for name := range written {
		t.Errorf("CONTRACT.md has %s, version.go does not", name)
	}
}

// traitNames returns the names of the constants of type Trait in version.go.
func traitNames(t *testing.T) map[Trait]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "version.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[Trait]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != "Trait" {
			return true
		}
		var value string
		if _, err := fmt.Sscanf(spec.Values[0].(*ast.BasicLit).Value, "%q", &value); err != nil {
			t.Fatal(err)
		}
		names[Trait(value)] = spec.Names[0].Name
		return false
	})
	return names
}
