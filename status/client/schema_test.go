package client_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"teambridge/teams/errtest"
)

// The types of the TypeScript client have the descriptions of the API's. Its own check needs npm.
func TestTypesAreOfTheAPI(t *testing.T) {
	t.Parallel()
	types, err := os.ReadFile("typescript/src/schema.ts")
	errtest.Must(t, err)
	data, err := os.ReadFile("../server/openapi.json")
	errtest.Must(t, err)
	var document struct{ Components struct{ Schemas any } }
	errtest.Must(t, json.Unmarshal(data, &document))
	var check func(v any)
	check = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, v := range v {
				check(v)
			}
		case map[string]any:
			for name, v := range v {
				if text, ok := v.(string); ok && name == "description" {
					for line := range strings.Lines(text) {
						if !strings.Contains(string(types), strings.TrimSpace(line)) {
							t.Errorf("schema.ts lacks %q; in status/client/typescript, run: npm run generate", line)
						}
					}
				}
				check(v)
			}
		}
	}
	check(document.Components.Schemas)
}
