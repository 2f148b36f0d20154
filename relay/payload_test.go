package relay

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/relay/mode"
)

const (
	legacyHead = `{"role":"user","content":{"type":"text","text":"hi"}`
	modernHead = `{"role":"session","content":{"id":"e1","time":1,"role":"user","ev":{"t":"text","text":"hi"}}`
)

// Each form is taken with one position of the switch and dropped with the other. The meta is
// the mode of the prompt, in which absent, null and a value differ.
func TestPayloads(t *testing.T) {
	t.Parallel()
	modes, err := ParsePermissionModes("yolo=bypassPermissions,bypassPermissions=default")
	must(t, err)
	for _, c := range []struct {
		name, rest string
		want       Input
	}{
		{"no meta", `}`, Input{}},
		{"an empty meta", `,"meta":{"sentFrom":"web"}}`, Input{}},
		{"all", `,"meta":{"permissionMode":"plan","model":"m","fallbackModel":"f","customSystemPrompt":"c","appendSystemPrompt":"","allowedTools":["A","B"],"disallowedTools":[]}}`,
			Input{Mode: mode.Mode{
				PermissionMode: mode.Set("plan"), Model: mode.Set("m"), FallbackModel: mode.Set("f"), CustomSystemPrompt: mode.Set("c"),
				AppendSystemPrompt: mode.Set(""), AllowedTools: mode.Set([]string{"A", "B"}), DisallowedTools: mode.Set([]string{}),
			}}},
		{"null", `,"meta":{"model":null,"fallbackModel":null,"customSystemPrompt":null,"appendSystemPrompt":null,"allowedTools":null,"disallowedTools":null}}`,
			Input{Mode: mode.Mode{
				Model: mode.Default[string](), FallbackModel: mode.Default[string](), CustomSystemPrompt: mode.Default[string](),
				AppendSystemPrompt: mode.Default[string](), AllowedTools: mode.Default[[]string](), DisallowedTools: mode.Default[[]string](),
			}}},
		{"a mapped mode", `,"meta":{"permissionMode":"yolo"}}`, Input{Mode: mode.Mode{PermissionMode: mode.Set("bypassPermissions")}}},
		{"a narrowed mode", `,"meta":{"permissionMode":"bypassPermissions"}}`, Input{Mode: mode.Mode{PermissionMode: mode.Set("default")}}},
		{"another text for people", `,"meta":{"displayText":" a\nb\u001b[2J "}}`, Input{Summary: "a b [2J"}},
		{"a long one", `,"meta":{"displayText":"` + strings.Repeat("ä", inbox.MaxSummary) + `"}}`, Input{Summary: strings.Repeat("ä", inbox.MaxSummary/2-2) + "…"}},
		{"the same one", `,"meta":{"displayText":"hi"}}`, Input{}},
	} {
		for _, modern := range []bool{false, true} {
			head, other := legacyHead+`,"localKey":"e1"`, modernHead
			if modern {
				head, other = other, head
			}
			p := Payloads{Modern: modern, PermissionModes: modes}
			c.want.Text, c.want.ID = "hi", "e1"
			in, taken, err := p.Parse([]byte(head + c.rest))
			if diff := cmp.Diff(c.want, in, cmp.Comparer(func(a, b mode.Mode) bool { return a == b })); !taken || err != nil || diff != "" {
				t.Errorf("%s, modern %t: taken %t, %v\n%s", c.name, modern, taken, err, diff)
			}
			if in, taken, err := p.Parse([]byte(other + c.rest)); taken || err != nil || in != (Input{}) {
				t.Errorf("%s, modern %t, the other form: %+v, taken %t, %v", c.name, modern, in, taken, err)
			}
		}
	}
	if in, taken, err := (Payloads{}).Parse([]byte(legacyHead + `}`)); !taken || err != nil || in.ID != "" {
		t.Errorf("without localKey: %+v, taken %t, %v", in, taken, err)
	}
}

// A payload that cannot be a prompt is refused, and the error names the wrong field.
func TestPayloadsRefuse(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		``:                 "must be JSON",
		`{"role":`:         "must be JSON",
		`hello`:            "must be JSON",
		`{"text":"hello"}`: "role",
		`{"role":"agent","content":{"type":"x"}}`:                                                         "role: must be user or session",
		`{"role":"user","content":{"type":"text"}}`:                                                       "content.text",
		legacyHead + `,"localKey":""}`:                                                                    "the id is blank",
		legacyHead + `,"localKey":"a\nb"}`:                                                                "the id holds a control character",
		legacyHead + `,"localKey":"\ud800"}`:                                                              `"localKey" has half of a surrogate pair`,
		`{"role":"user","content":{"type":"text","text":"a\ud800b"}}`:                                     `"content.text" has half of a surrogate pair`,
		"{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"caf\xe9\"}}":                        `"content.text" is not valid UTF-8`,
		`{"role":"user","content":{"type":"text","text":"a","text":"b"}}`:                                 `"content.text" occurs twice`,
		legacyHead + `,"meta":{"displayText":"\ud83d"}}`:                                                  `"meta.displayText" has half of a surrogate pair`,
		legacyHead + `,"meta":{"model":"\ud83d"}}`:                                                        `"meta.model" has half of a surrogate pair`,
		legacyHead + `,"meta":null}`:                                                                      "meta",
		legacyHead + `,"meta":{"allowedTools":[1]}}`:                                                      "meta.allowedTools.0",
		legacyHead + `,"meta":{"permissionMode":""}}`:                                                     "--permission-mode-map NAME=MODE",
		`{"role":"user","content":{"type":"text","text":" "}}`:                                            "the text is blank",
		`{"role":"user","content":{"type":"text","text":"a\u0000b"}}`:                                     "NUL",
		`{"role":"user","content":{"type":"text","text":"` + strings.Repeat("x", inbox.MaxText+1) + `"}}`: "the text has",
		`{"role":"session","content":{"id":"e1","time":1,"role":"agent","ev":{"t":"text","text":"x"}}}`:   "content.role: must be user",
		`{"role":"session","content":{"id":"e1","time":1,"role":"user","ev":{"t":"service","text":"x"}}}`: "content",
		legacyHead + `,"meta":{"permissionMode":"read-only"}}`:                                            `"read-only" is not a permission mode of Claude Code; --permission-mode-map read-only=MODE`,
		legacyHead + `,"meta":{"permissionMode":"safe-yolo"}}`:                                            `"safe-yolo" is not`,
		legacyHead + `,"meta":{"permissionMode":"yolo"}}`:                                                 `"yolo" is not`,
		legacyHead + `,"meta":{"permissionMode":"Plan"}}`:                                                 `"Plan" is not`,
		legacyHead + `,"meta":{"permissionMode":"yolo\u001b[2J` + strings.Repeat("x", 1000) + `"}}`:       `"yolo\x1b[2J`,
	} {
		in, taken, err := (Payloads{}).Parse([]byte(line))
		if err == nil || taken || in != (Input{}) || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("%.100s: %+v, taken %t, %v, want %s", line, in, taken, err, want)
		}
	}
	for line, want := range map[string]string{
		`{"role":"session","content":{"id":"","time":1,"role":"user","ev":{"t":"text","text":"x"}}}`:                                         "the id is blank",
		`{"role":"session","content":{"id":"e1","time":1,"role":"user","ev":{"t":"turn-start"}}}`:                                            "content.ev.t: must be text",
		`{"role":"session","content":{"id":"e1","time":1,"role":"user","subagent":"tz4a98xxat96iws9zmbrgj3a","ev":{"t":"text","text":"x"}}}`: "content.subagent",
	} {
		if _, taken, err := (Payloads{Modern: true}).Parse([]byte(line)); err == nil || taken || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: taken %t, %v, want %s", line, taken, err, want)
		}
	}
	if _, _, err := (Payloads{}).Parse([]byte(legacyHead + `,"meta":{"permissionMode":"yolo"}}`)); !errors.As(err, new(*PermissionModeError)) {
		t.Errorf("an unknown permission mode: %v", err)
	}
}

func TestParsePermissionModes(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{"": "", "yolo=bypassPermissions,read-only=plan": "read-only=plan,yolo=bypassPermissions", "x=manual": "x=manual"} {
		if m, err := ParsePermissionModes(list); err != nil || m.String() != want {
			t.Errorf("%q: %s, %v, want %s", list, m, err, want)
		}
	}
	for _, list := range []string{",", "yolo", "=plan", "yolo=", "yolo=yolo", "yolo=plan,", "a=plan,a=default", "yolo = plan", "yolo=Plan"} {
		if m, err := ParsePermissionModes(list); err == nil {
			t.Errorf("%q: %v, want an error", list, m)
		}
	}
}

func TestParseSwitch(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"1": true, "true": true, "yes": true, "TRUE": true, "Yes": true, "": false, "0": false, "on": false, " 1": false, "no": false} {
		if ParseSwitch(value) != want {
			t.Errorf("%q: want %t", value, want)
		}
	}
}

// Any line is a prompt in at most one position of the switch, and then a usable one, in a
// permission mode of Claude Code.
func FuzzPayloads(f *testing.F) {
	f.Add(legacyHead + `,"localKey":"k","meta":{"permissionMode":"yolo","model":null,"displayText":"\ud800"}}`)
	f.Add(modernHead + `,"meta":{"permissionMode":"plan","allowedTools":["A"]}}`)
	f.Add(`{"role":"agent","content":{"type":"output"}}`)
	f.Add("{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"\xff\"}}")
	f.Fuzz(func(t *testing.T, line string) {
		count := 0
		for _, p := range []Payloads{{}, {Modern: true}} {
			p.PermissionModes = PermissionModes{"yolo": "plan"}
			in, taken, err := p.Parse([]byte(line))
			if !taken || err != nil {
				if in != (Input{}) || taken && err != nil {
					t.Errorf("modern %t: %+v, taken %t, %v", p.Modern, in, taken, err)
				}
				continue
			}
			count++
			name, set := in.Mode.PermissionMode.Value()
			if set && !slices.Contains(mode.Permissions(), name) || !utf8.ValidString(in.Text+in.ID+in.Summary) || strings.TrimSpace(in.Text) == "" ||
				len(in.Summary) > inbox.MaxSummary || in.From != "" || in.Protocol || in.Isolated {
				t.Errorf("modern %t: %+v", p.Modern, in)
			}
		}
		if count > 1 {
			t.Errorf("%q is taken twice", line)
		}
	})
}
