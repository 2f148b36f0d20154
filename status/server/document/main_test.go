package main

import (
	"bytes"
	"os"
	"testing"
)

// What is in the repository is what the table, the types and their comments say.
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
