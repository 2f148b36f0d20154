// Command compiles checks that the packages of this module, with their tests, compile for other systems:
//
//	compiles GOOS...
//
// It type-checks them from source, with what they import. go vet and go build would first compile all of that for each
// system, SQLite among it, which takes longer than all tests.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	top, err := os.Getwd()
	if err != nil {
		fail(err)
	}
	// The bodies of functions that others wrote have no say in whether our code compiles.
	parse := func(set *token.FileSet, name string, src []byte) (*ast.File, error) {
		file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
		if err == nil && !strings.HasPrefix(name, top+string(os.PathSeparator)) {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					f.Body = nil
				}
			}
		}
		return file, err
	}
	errors := 0
	for _, system := range os.Args[1:] {
		list, err := packages.Load(&packages.Config{
			Mode:      packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedSyntax | packages.NeedTypes,
			Env:       append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
			ParseFile: parse,
			Tests:     true,
		}, "./...")
		if err != nil {
			fail(err)
		}
		ours := 0
		for _, p := range list {
			if strings.HasSuffix(p.ID, ".test") {
				continue // the main function that go test makes
			}
			ours++
			for _, e := range p.Errors {
				fmt.Fprintf(os.Stderr, "%s: %v\n", system, e)
				errors++
			}
		}
		fmt.Printf("%s: %d packages and tests are checked, %d errors\n", system, ours, errors)
	}
	if errors > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "compiles:", err)
	os.Exit(1)
}
