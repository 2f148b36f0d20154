package standin_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
)

func TestChain(t *testing.T) {
	t.Parallel()
	user := func(id, parent, text string) string {
		return `{"type":"user","uuid":"` + id + `","parentUuid":` + parent + `,"message":{"content":"` + text + `"}}` + "\n"
	}
	answer := func(id, parent string) string {
		return `{"type":"assistant","uuid":"` + id + `","parentUuid":` + parent + `,"message":{"stop_reason":"end_turn","content":[{"type":"text","text":"ok"}]}}` + "\n"
	}
	first := user("a", "null", "one") + answer("b", `"a"`) + `{"type":"mode"}` + "\n" + `{"torn":` + "\n"
	for name, tc := range map[string]struct {
		text  string
		want  []string
		wrong string
	}{
		"one conversation": {first + user("c", `"b"`, "two") + answer("d", `"c"`), []string{"one", "two"}, ""},
		"a prompt that the other process does not know": {first + user("c", `"b"`, "two") + user("d", `"b"`, "three"), nil, "a fork: user c"},
		"an answer that it does not know":               {first + user("c", `"a"`, "two"), nil, "a fork: assistant b"},
		"a cut answer":                                  {first + strings.Replace(answer("x", `"b"`), "end_turn", "tool_use", 1) + user("c", `"b"`, "two"), []string{"one", "two"}, ""},
		"another beginning":                             {first + user("c", "null", "two"), nil, "a fork: user a"},
		"a record twice":                                {first + first, nil, "is twice"},
		"a parent that is missing":                      {first + user("c", `"z"`, "two"), nil, "is missing"},
		"a record that is its own parent":               {user("a", `"a"`, "one"), nil, "its own ancestor"},
		"records after those that descend from them":    {first + answer("e", `"d"`) + user("d", `"c"`, "two") + `{"type":"attachment","uuid":"c","parentUuid":"b"}` + "\n", []string{"one", "two"}, ""},
		"a compaction": {first + `{"type":"system","uuid":"s","parentUuid":null,"logicalParentUuid":"b"}` + "\n" + user("c", `"s"`, "two"),
			[]string{"one", "two"}, ""},
	} {
		path := filepath.Join(t.TempDir(), "t.jsonl")
		must(t, os.WriteFile(path, []byte(tc.text), 0o600))
		got, err := standin.Chain(path)
		if tc.wrong == "" && (err != nil || !slices.Equal(got, tc.want)) || tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)) {
			t.Errorf("%s: %q, %v; want %q, %q", name, got, err, tc.want, tc.wrong)
		}
	}
}
