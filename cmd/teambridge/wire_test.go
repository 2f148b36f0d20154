package main

import (
	"testing"

	"teambridge/relay/wire"
)

// What is checked as its own type, or as one that is named, is valid exactly if the parser of
// that type accepts it.
func FuzzCheckWire(f *testing.F) {
	for _, line := range []string{
		`{"id":"e","time":1,"role":"agent","ev":{"t":"stop"}}`,
		`{"role":"user","content":{"type":"text","text":"hi"}}`,
		`{"id":"m","seq":1,"content":{"t":"encrypted","c":"x"},"createdAt":1,"updatedAt":1}`,
		`{"id":"u","seq":1,"body":{"t":"update-session","id":"s"},"createdAt":1}`,
		`{"ev":null}`, `[`, `null`, `"`, "\xff", `{"role":`, `{"ev":1,"ev":{}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		accepted := map[string]bool{
			"envelope": new(wire.Envelope).UnmarshalJSON(line) == nil,
			"message":  new(wire.SessionMessage).UnmarshalJSON(line) == nil,
			"update":   new(wire.CoreUpdateContainer).UnmarshalJSON(line) == nil,
		}
		_, err := wire.ParseMessageContent(line)
		accepted["payload"] = err == nil
		kind, issues := checkWire(line, "")
		if valid := len(issues) == 0; valid != accepted[kind] {
			t.Errorf("%q as %q: %v", line, kind, issues)
		}
		for name, ok := range accepted {
			if as, issues := checkWire(line, name); as != name || ok != (len(issues) == 0) {
				t.Errorf("%q as %s, which is %t: %q, %v", line, name, ok, as, issues)
			}
			if ok && kind == "" {
				t.Errorf("%q is of type %s, which is not known", line, name)
			}
		}
	})
}
