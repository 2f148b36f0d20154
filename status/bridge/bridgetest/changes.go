package bridgetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"teambridge/status/api"
)

// changes requests the changes that an agent made to files.
func changes(w *world) {
	const id = "3f3c58ee-33ff-467b-95ea-b5bde5dd1ce1"
	_, err := w.b.Changes(w.Context(), "", id, api.ChangesQuery{})
	w.fails(err, api.CodeNotFound)
	_, err = w.b.Changes(w.Context(), "", "ses_1", api.ChangesQuery{})
	w.fails(err, api.CodeInvalid)
	_, err = w.b.Changes(w.Context(), newer, "nobody", api.ChangesQuery{})
	w.fails(err, api.CodeNotFound)

	first := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	change := func(uuid, file, text string, after time.Duration) string {
		content, _ := json.Marshal(text)
		return `{"type":"user","uuid":"` + uuid + `","timestamp":"` + first.Add(after).Format(time.RFC3339) + `","toolUseResult":{"type":"create","filePath":"` + file + `","content":` + string(content) + `,"structuredPatch":[]}}` + "\n"
	}
	path := filepath.Join(w.Root.Path(), "projects", "-work", id+".jsonl")
	w.must(os.MkdirAll(filepath.Dir(path), 0o700))
	long := strings.Repeat("x\n", api.MaxPatch)
	w.must(os.WriteFile(path, []byte(change("1", "/shop/a", "one\ntwo\n", 0)+change("2", "/shop/b", "b\n", time.Minute)+change("3", "/shop/a", long, time.Hour)), 0o600))
	a := api.FileChanges{File: "/shop/a", Created: true, Changes: 2, Added: 2 + api.MaxPatch, First: first, Last: first.Add(time.Hour)}
	b := api.FileChanges{File: "/shop/b", Created: true, Changes: 1, Added: 1, First: first.Add(time.Minute), Last: first.Add(time.Minute)}
	got, err := w.b.Changes(w.Context(), "", id, api.ChangesQuery{})
	if err != nil || !reflect.DeepEqual(got, []api.FileChanges{a, b}) {
		w.Errorf("changed: %+v, %v", got, err)
	}
	got, err = w.b.Changes(w.Context(), "", id, api.ChangesQuery{Since: first.Add(time.Second), File: "shop/b", Patches: true})
	b.Patches = []api.Patch{{At: b.First, Text: "@@ -0,0 +1,1 @@\n+b\n"}}
	if err != nil || !reflect.DeepEqual(got, []api.FileChanges{b}) {
		w.Errorf("changed in b: %+v, %v", got, err)
	}
	got, err = w.b.Changes(w.Context(), "", id, api.ChangesQuery{File: "a", Patches: true})
	if err != nil || len(got) != 1 || len(got[0].Patches) != 2 || got[0].Patches[0].Cut || !got[0].Patches[1].Cut ||
		!strings.HasSuffix(got[0].Patches[1].Text, "\n+x\n") || len(got[0].Patches[1].Text) > api.MaxPatch {
		w.Errorf("a long change: %v", err)
	}
}
