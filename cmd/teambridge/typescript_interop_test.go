package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"teambridge/relay/relaytest/standin"
)

// TestRealTypeScriptClient runs testdata/script/typescript. It builds the client in status/client/typescript,
// compares its types with openapi.json, and runs tests and example in Node.js with a service and a simulated agent.
func TestRealTypeScriptClient(t *testing.T) {
	t.Parallel()
	standin.RequireNode(t)
	standin.RequireNpm(t)
	modules := standin.RequireTypeScript(t)
	p := scripts("typescript")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		if err := setup(env); err != nil {
			return err
		}
		// Node.js looks for packages next to the sources, where the test writes nothing.
		top, here := filepath.Join("..", ".."), filepath.Join(env.WorkDir, "status", "client", "typescript")
		for _, dir := range []string{"src", "test", "example"} {
			if err := os.CopyFS(filepath.Join(here, dir), os.DirFS(filepath.Join(top, "status", "client", "typescript", dir))); err != nil {
				return err
			}
		}
		for _, file := range []string{"status/client/typescript/package.json", "status/client/typescript/tsconfig.json", "status/server/openapi.json"} {
			data, err := os.ReadFile(filepath.Join(top, file))
			if err != nil {
				return err
			}
			to := filepath.Join(env.WorkDir, file)
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(to, data, 0o600); err != nil {
				return err
			}
		}
		return os.Symlink(modules, filepath.Join(here, "node_modules"))
	}
	testscript.Run(t, p)
}
