package main

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"teambridge/relay/mode"
)

// The document in the repository is generated from the table, the types and their comments.
func TestDocumentIsGenerated(t *testing.T) {
	t.Chdir("..")
	want, err := document()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("openapi.json is of other operations, types or comments; run: go generate ./status/server")
	}
}

// Mode, which the API passes on as it is, has the settings of relays.
func TestModeHasAllSettings(t *testing.T) {
	described := reflect.TypeFor[Mode]()
	for i := range described.NumField() {
		setting, _, _ := strings.Cut(described.Field(i).Tag.Get("json"), ",")
		if _, err := mode.Parse(fmt.Appendf(nil, `{%q: null}`, setting)); err != nil {
			t.Errorf("Mode has %s in the document: %v", setting, err)
		}
	}
	if have, want := described.NumField(), reflect.TypeFor[mode.Mode]().NumField(); have != want {
		t.Errorf("Mode has %d settings in the document, want %d", have, want)
	}
}
