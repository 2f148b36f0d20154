package teams

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// A member's prompt is never printed, with whatever verb the member, or a value that contains it, is printed.
func TestPromptIsNeverPrinted(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	m := Member{Name: "worker", AgentID: "worker@t", Prompt: secret}
	c := &Config{Name: "t", Members: []Member{m}}
	things := map[string]any{
		"prompt": m.Prompt, "member": m, "*member": &m, "members": c.Members,
		"config": *c, "*config": c, "map": map[string]Member{"x": m}, "any": []any{m},
	}
	hex := fmt.Sprintf("%x", secret)
	leaks := func(s string) bool {
		return strings.Contains(s, secret) || strings.Contains(strings.ToLower(s), hex)
	}
	for name, thing := range things {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%t", "%T", "%10v"} {
			if s := fmt.Sprintf(verb, thing); leaks(s) {
				t.Errorf("%s with %s: %s", name, verb, s)
			}
		}
		if s := fmt.Sprintln(thing); leaks(s) {
			t.Errorf("%s with Println: %s", name, s)
		}
		if b, err := json.Marshal(thing); err != nil || leaks(string(b)) {
			t.Errorf("%s as JSON: %s, %v", name, b, err)
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "thing", thing)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "thing", thing)
		if leaks(log.String()) {
			t.Errorf("%s in a log: %s", name, log.String())
		}
	}
	if string(m.Prompt) != secret {
		t.Error("the prompt itself was lost")
	}
}
