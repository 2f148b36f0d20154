package wire

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"teambridge/teams/errtest"
)

var must = errtest.Must

// schema is a type that the vectors check a text against. It reads a value of the
// type and writes it.
type schema struct {
	read  func(data []byte) (any, error)
	write func(v any) ([]byte, error)
}

func schemaOf[T any](c codec[T]) schema {
	return schema{
		read:  func(data []byte) (any, error) { return parse(data, c) },
		write: func(v any) ([]byte, error) { p := v.(T); return format(&p, c) },
	}
}

// byJSON is the schema of a type that implements the interfaces of encoding/json.
func byJSON[T any]() schema {
	return schema{
		read: func(data []byte) (any, error) {
			var v T
			err := json.Unmarshal(data, &v)
			return v, err
		},
		write: func(v any) ([]byte, error) { return json.Marshal(v) },
	}
}

func byFunc[T any](parse func([]byte) (T, error)) schema {
	return schema{
		read:  func(data []byte) (any, error) { return parse(data) },
		write: func(v any) ([]byte, error) { return json.Marshal(v) },
	}
}

// schemas has the names that the vectors use.
var schemas = map[string]schema{
	"sessionRoleSchema":          schemaOf(oneOf(RoleUser, RoleAgent)),
	"sessionEventSchema":         byFunc(ParseEvent),
	"sessionEnvelopeSchema":      byJSON[Envelope](),
	"MessageMetaSchema":          byJSON[MessageMeta](),
	"UserMessageSchema":          byJSON[UserMessage](),
	"AgentMessageSchema":         byJSON[AgentMessage](),
	"MessageContentSchema":       byFunc(ParseMessageContent),
	"LegacyMessageContentSchema": byFunc(ParseLegacyMessageContent),
	"SessionMessageSchema":       byJSON[SessionMessage](),
	"CoreUpdateContainerSchema":  byJSON[CoreUpdateContainer](),
}

type vector struct {
	Schema, Name, JSON, Normalized string
	Valid                          bool
	Issues                         []string
}

func vectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile("../../testdata/vectors/wire.json")
	must(t, err)
	var list []vector
	must(t, json.Unmarshal(data, &list))
	return list
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		t.Run(v.Schema+"/"+v.Name, func(t *testing.T) {
			t.Parallel()
			s, ok := schemas[v.Schema]
			if !ok {
				t.Fatalf("no schema %s", v.Schema)
			}
			got, err := s.read([]byte(v.JSON))
			if !v.Valid {
				// The wording is ours; the path is not.
				var want []string
				for _, issue := range v.Issues {
					path, _, _ := strings.Cut(issue, ": ")
					want = append(want, path)
				}
				if paths := pathsOf(t, err); !slices.Equal(paths, want) {
					t.Errorf("%s: got issues at %q, want %q: %v", v.JSON, paths, want, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", v.JSON, err)
			}
			if out, err := s.write(got); err != nil || string(out) != v.Normalized {
				t.Errorf("%s: written as %s, %v; want %s", v.JSON, out, err, v.Normalized)
			}
		})
	}
}

func pathsOf(t *testing.T, err error) (paths []string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want an *Error", err)
	}
	for _, issue := range e.Issues {
		path, _, _ := strings.Cut(issue.String(), ": ")
		paths = append(paths, path)
	}
	return paths
}

// message returns the text of an error without its prefix, "" if there is none.
func message(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "wire: ")
}

// The rules that the vectors do not cover are checked. want is the error without
// its prefix; an accepted text has none.
func TestRules(t *testing.T) {
	t.Parallel()
	envelope := func(fields string) string {
		return `{"id":"e","time":1,"role":"agent","ev":{"t":"stop"}` + fields + `}`
	}
	usage := func(fields string) string {
		return envelope(`,"usage":{"input_tokens":0,"output_tokens":0` + fields + `}`)
	}
	update := func(body string) string {
		return `{"id":"u","seq":1,"createdAt":1,"body":` + body + `}`
	}
	many := make([]string, maxIssues)
	for i := range many {
		many[i] = "allowedTools." + strconv.Itoa(i) + ": must be a string, not a number"
	}
	for _, test := range []struct{ name, schema, json, want string }{
		{"role: service from the user", "sessionEnvelopeSchema",
			`{"id":"e","time":1,"role":"user","ev":{"t":"service","text":"s"}}`,
			`role: must be "agent" for a service event`},
		{"role: start from the user", "sessionEnvelopeSchema",
			`{"id":"e","time":1,"role":"user","ev":{"t":"start"}}`,
			`role: must be "agent" for a start event`},
		{"role: stop from the user", "sessionEnvelopeSchema",
			`{"id":"e","time":1,"role":"user","ev":{"t":"stop"}}`,
			`role: must be "agent" for a stop event`},
		{"role: start from the agent", "sessionEnvelopeSchema",
			`{"id":"e","time":1,"role":"agent","ev":{"t":"start"}}`, ``},
		{"role: text from the user", "sessionEnvelopeSchema",
			`{"id":"e","time":1,"role":"user","ev":{"t":"text","text":""}}`, ``},
		{"each broken rule", "sessionEnvelopeSchema",
			`{"time":null,"role":"user","subagent":"A","ev":{"t":"service","text":1}}`,
			`id: is missing; time: must be a number, not null; ` +
				`subagent: must be a cuid2: 2 to 32 lower-case letters and digits; ` +
				`ev.text: must be a string, not a number; role: must be "agent" for a service event`},
		{"subagent of 33", "sessionEnvelopeSchema",
			envelope(`,"subagent":"` + strings.Repeat("a", 33) + `"`),
			`subagent: must be a cuid2: 2 to 32 lower-case letters and digits`},
		{"subagent with a newline", "sessionEnvelopeSchema", envelope(`,"subagent":"aa\n"`),
			`subagent: must be a cuid2: 2 to 32 lower-case letters and digits`},
		{"subagent empty", "sessionEnvelopeSchema", envelope(`,"subagent":""`),
			`subagent: must be a cuid2: 2 to 32 lower-case letters and digits`},
		{"claudeUuid empty", "sessionEnvelopeSchema", envelope(`,"claudeUuid":""`), `claudeUuid: must not be empty`},
		{"codexItemId empty", "sessionEnvelopeSchema", envelope(`,"codexItemId":""`), `codexItemId: must not be empty`},
		{"turn null", "sessionEnvelopeSchema", envelope(`,"turn":null`), `turn: must be a string, not null`},
		{"no event", "sessionEnvelopeSchema", `{"id":"e","time":1,"role":"agent"}`, `ev: is missing`},
		{"event null", "sessionEnvelopeSchema", `{"id":"e","time":1,"role":"agent","ev":null}`, `ev: must be an object, not null`},
		{"time out of range", "sessionEnvelopeSchema",
			`{"id":"e","time":-1e999,"role":"agent","ev":{"t":"stop"}}`, `time: must be a finite number`},

		{"tokens negative", "sessionEnvelopeSchema", envelope(`,"usage":{"input_tokens":-1,"output_tokens":-1}`),
			`usage.input_tokens: must be at least 0; usage.output_tokens: must be at least 0`},
		{"cache tokens negative", "sessionEnvelopeSchema",
			usage(`,"cache_creation_input_tokens":-1,"cache_read_input_tokens":-1`),
			`usage.cache_creation_input_tokens: must be at least 0; usage.cache_read_input_tokens: must be at least 0`},
		{"cache tokens with a fraction", "sessionEnvelopeSchema", usage(`,"cache_read_input_tokens":0.1`),
			`usage.cache_read_input_tokens: must be an integer within ±(2^53-1)`},
		{"context_window 0", "sessionEnvelopeSchema", usage(`,"context_window":0`), `usage.context_window: must be at least 1`},
		{"context_window null", "sessionEnvelopeSchema", usage(`,"context_window":null`),
			`usage.context_window: must be a number, not null`},
		{"tokens below the limit", "sessionEnvelopeSchema", usage(`,"context_window":-9007199254740992`),
			`usage.context_window: must be an integer within ±(2^53-1)`},
		{"tokens at the limit", "sessionEnvelopeSchema", usage(`,"context_window":9007199254740991`), ``},
		{"tokens 1.0", "sessionEnvelopeSchema", usage(`,"context_window":1.0`), ``},
		{"tokens out of range", "sessionEnvelopeSchema", usage(`,"context_window":1e999`),
			`usage.context_window: must be a finite number`},
		{"service_tier null", "sessionEnvelopeSchema", usage(`,"service_tier":null`),
			`usage.service_tier: must be a string, not null`},

		{"t null", "sessionEventSchema", `{"t":null}`, `t: must be a string, not null`},
		{"event as a list", "sessionEventSchema", `[]`, `(root): must be an object, not an array`},
		{"event as a string", "sessionEventSchema", `"stop"`, `(root): must be an object, not a string`},
		{"event as a boolean", "sessionEventSchema", `true`, `(root): must be an object, not a boolean`},
		{"case of a key", "sessionEventSchema", `{"t":"service","Text":"x"}`, `text: is missing`},
		{"the last key counts", "sessionEventSchema", `{"t":"service","text":"x","text":1}`,
			`text: must be a string, not a number`},
		{"an escaped key", "sessionEventSchema", `{"\u0074":"service","te\u0078t":"x"}`, ``},
		{"thinking null", "sessionEventSchema", `{"t":"text","text":"","thinking":null}`,
			`thinking: must be a boolean, not null`},
		{"args null", "sessionEventSchema",
			`{"t":"tool-call-start","call":"","name":"","title":"","description":"","args":null}`,
			`args: must be an object, not null`},
		{"nothing of a tool call", "sessionEventSchema", `{"t":"tool-call-start"}`,
			`call: is missing; name: is missing; title: is missing; description: is missing; args: is missing`},
		{"nothing of a file", "sessionEventSchema", `{"t":"file"}`,
			`ref: is missing; name: is missing; size: is missing`},
		{"nothing of a picture", "sessionEventSchema", `{"t":"file","ref":"r","name":"n","size":1,"image":{}}`,
			`image.width: is missing; image.height: is missing; image.thumbhash: is missing`},
		{"a failed turn", "sessionEventSchema", `{"t":"turn-end","status":"failed"}`, ``},

		{"everything null", "MessageMetaSchema",
			`{"model":null,"fallbackModel":null,"customSystemPrompt":null,"appendSystemPrompt":null,"allowedTools":null,"disallowedTools":null}`, ``},
		{"sentFrom null", "MessageMetaSchema", `{"sentFrom":null}`, `sentFrom: must be a string, not null`},
		{"tools as text", "MessageMetaSchema", `{"disallowedTools":"a"}`, `disallowedTools: must be an array, not a string`},
		{"many issues", "MessageMetaSchema", `{"allowedTools":[0` + strings.Repeat(",0", 50) + `]}`, strings.Join(many, "; ")},
		{"case of a key in meta", "MessageMetaSchema", `{"Model":1}`, ``},

		{"meta null", "UserMessageSchema", `{"role":"user","content":{"type":"text","text":"x"},"meta":null}`,
			`meta: must be an object, not null`},
		{"meta wrong", "UserMessageSchema", `{"role":"user","content":{"type":"text","text":"x"},"meta":{"model":1}}`,
			`meta.model: must be a string, not a number`},
		{"no content", "UserMessageSchema", `{"role":"user"}`, `content: is missing`},
		{"no type", "AgentMessageSchema", `{"role":"agent","content":{"text":"x"}}`, `content.type: is missing`},
		{"role user", "AgentMessageSchema", `{"role":"user","content":{"type":""}}`, `role: must be "agent"`},
		{"unknown role", "MessageContentSchema", `{"role":"system"}`, `role: must be "user" or "agent" or "session"`},
		{"broken deep inside", "MessageContentSchema",
			`{"role":"session","content":{"id":"e","time":1,"role":"agent","ev":{"t":"text"}},"meta":{"allowedTools":[0]}}`,
			`content.ev.text: is missing; meta.allowedTools.0: must be a string, not a number`},

		{"no localId", "SessionMessageSchema",
			`{"id":"m","seq":1,"content":{"t":"encrypted","c":""},"createdAt":1,"updatedAt":2}`, ``},
		{"localId number", "SessionMessageSchema",
			`{"id":"m","seq":1,"localId":1,"content":{"t":"encrypted","c":""},"createdAt":1,"updatedAt":2}`,
			`localId: must be a string, not a number`},
		{"no times", "SessionMessageSchema", `{"id":"m","seq":1,"content":{"t":"encrypted","c":""}}`,
			`createdAt: is missing; updatedAt: is missing`},

		{"agentState.value null", "CoreUpdateContainerSchema",
			update(`{"t":"update-session","id":"s","metadata":null,"agentState":{"version":1,"value":null}}`), ``},
		{"agentState.value number", "CoreUpdateContainerSchema",
			update(`{"t":"update-session","id":"s","agentState":{"version":1,"value":1}}`),
			`body.agentState.value: must be a string, not a number`},
		{"no version", "CoreUpdateContainerSchema", update(`{"t":"update-machine","machineId":"m","metadata":{"value":"v"}}`),
			`body.metadata.version: is missing`},
		{"active null", "CoreUpdateContainerSchema", update(`{"t":"update-machine","machineId":"m","active":null,"activeAt":null}`),
			`body.active: must be a boolean, not null; body.activeAt: must be a number, not null`},
		{"no body", "CoreUpdateContainerSchema", `{"id":"u","seq":1,"createdAt":1}`, `body: is missing`},
		{"message wrong", "CoreUpdateContainerSchema", update(`{"t":"new-message","message":{"id":"m"}}`),
			`body.sid: is missing; body.message.seq: is missing; body.message.content: is missing; ` +
				`body.message.createdAt: is missing; body.message.updatedAt: is missing`},

		// ParseEvent gets the raw bytes; encoding/json checks them first.
		{"empty", "sessionEventSchema", ``, `(root): must be JSON: unexpected end of JSON input at byte 0`},
		{"cut off", "sessionEventSchema", `{"t":"stop"`, `(root): must be JSON: unexpected end of JSON input at byte 11`},
		{"two", "sessionEventSchema", `{"t":"stop"} {}`,
			`(root): must be JSON: invalid character '{' after top-level value at byte 14`},
		{"not UTF-8", "sessionEventSchema", "{\"t\":\"service\",\"text\":\"\xff\"}", `(root): must be UTF-8`},
		{"a surrogate in UTF-8", "sessionEventSchema", "{\"t\":\"service\",\"text\":\"\xed\xa0\x80\"}", `(root): must be UTF-8`},
		{"space around", "sessionEventSchema", " \n{ \"t\" : \"stop\" }\r\n", ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := schemas[test.schema].read([]byte(test.json))
			if got := message(err); got != test.want {
				t.Errorf("%s:\n got %s\nwant %s", test.json, got, test.want)
			}
		})
	}
}

// Each field is checked for its presence, if it is required, and for its type, also
// if the vectors have no case for it.
func TestEachField(t *testing.T) {
	t.Parallel()
	const (
		// With the fields that are required, and with all of them.
		envelope = `{"id":"e","time":1,"role":"agent","ev":{"t":"stop"}}`
		usage    = `{"input_tokens":1,"output_tokens":1}`
		meta     = `{"sentFrom":"s","permissionMode":"p","model":"m","fallbackModel":"f","customSystemPrompt":"c","appendSystemPrompt":"a",` +
			`"allowedTools":[],"disallowedTools":[],"displayText":"d"}`
		sealed  = `{"id":"m","seq":1,"content":{"t":"encrypted","c":"c"},"createdAt":1,"updatedAt":1}`
		version = `{"version":1,"value":"v"}`
	)
	for _, test := range []struct {
		schema, min, all string
		optional         []string // in min because of their own fields
	}{
		{"sessionEventSchema", `{"t":"text","text":"x"}`, `{"t":"text","text":"x","thinking":true}`, nil},
		{"sessionEventSchema", `{"t":"service","text":"x"}`, ``, nil},
		{"sessionEventSchema", `{"t":"tool-call-start","call":"c","name":"n","title":"t","description":"d","args":{}}`, ``, nil},
		{"sessionEventSchema", `{"t":"tool-call-end","call":"c"}`, ``, nil},
		{"sessionEventSchema", `{"t":"file","ref":"r","name":"n","size":1,"image":{"width":1,"height":1,"thumbhash":"h"}}`,
			`{"t":"file","ref":"r","name":"n","size":1,"mimeType":"m","image":{"width":1,"height":1,"thumbhash":"h"}}`, []string{"image"}},
		{"sessionEventSchema", `{"t":"turn-start"}`, ``, nil},
		{"sessionEventSchema", `{"t":"start"}`, `{"t":"start","title":"t"}`, nil},
		{"sessionEventSchema", `{"t":"turn-end","status":"failed"}`, ``, nil},
		{"sessionEnvelopeSchema", envelope, `{"id":"e","time":1,"role":"agent","turn":"t","subagent":"ab","claudeUuid":"c","codexItemId":"x","usage":` +
			usage + `,"ev":{"t":"stop"}}`, nil},
		{"sessionEnvelopeSchema", `{"id":"e","time":1,"role":"agent","usage":` + usage + `,"ev":{"t":"stop"}}`,
			`{"id":"e","time":1,"role":"agent","usage":{"input_tokens":1,"output_tokens":1,"cache_creation_input_tokens":1,` +
				`"cache_read_input_tokens":1,"context_window":1,"service_tier":"s"},"ev":{"t":"stop"}}`, []string{"usage"}},
		{"MessageMetaSchema", `{}`, meta, nil},
		{"UserMessageSchema", `{"role":"user","content":{"type":"text","text":"x"}}`,
			`{"role":"user","content":{"type":"text","text":"x"},"localKey":"k","meta":` + meta + `}`, nil},
		{"AgentMessageSchema", `{"role":"agent","content":{"type":"x"}}`, `{"role":"agent","content":{"type":"x"},"meta":` + meta + `}`, nil},
		{"MessageContentSchema", `{"role":"session","content":` + envelope + `}`, `{"role":"session","content":` + envelope + `,"meta":` + meta + `}`, nil},
		{"SessionMessageSchema", sealed, strings.Replace(sealed, `"seq"`, `"localId":"l","seq"`, 1), nil},
		{"CoreUpdateContainerSchema", `{"id":"u","seq":1,"createdAt":1,"body":{"t":"new-message","sid":"s","message":` + sealed + `}}`, ``, nil},
		{"CoreUpdateContainerSchema", `{"id":"u","seq":1,"createdAt":1,"body":{"t":"update-session","id":"s","metadata":` + version +
			`,"agentState":` + version + `}}`, ``, []string{"body.metadata", "body.agentState"}},
		{"CoreUpdateContainerSchema", `{"id":"u","seq":1,"createdAt":1,"body":{"t":"update-machine","machineId":"m","metadata":` + version + `}}`,
			`{"id":"u","seq":1,"createdAt":1,"body":{"t":"update-machine","machineId":"m","metadata":` + version + `,"daemonState":` + version +
				`,"active":true,"activeAt":1}}`, []string{"body.metadata"}},
	} {
		t.Run(test.schema, func(t *testing.T) {
			t.Parallel()
			if test.all == "" {
				test.all = test.min
			}
			read := schemas[test.schema].read
			for _, text := range []string{test.min, test.all} {
				if _, err := read([]byte(text)); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			eachField(t, test.min, func(value any) any { return nil }, func(path, text string) {
				if slices.Contains(test.optional, path) {
					return
				}
				if _, err := read([]byte(text)); message(err) != path+": is missing" {
					t.Errorf("%s: got %v, want %s to be missing", text, err, path)
				}
			})
			wrongType := func(value any) any {
				if _, ok := value.([]any); ok {
					return map[string]any{}
				}
				return []any{}
			}
			eachField(t, test.all, wrongType, func(path, text string) {
				if _, err := read([]byte(text)); !slices.Equal(pathsOf(t, err), []string{path}) {
					t.Errorf("%s: got %v, want an issue at %s", text, err, path)
				}
			})
		})
	}
}

// eachField calls found with text, changed in one place: at each path of an
// object's field in turn, with the value that change returns, or without the
// field if it returns nil.
func eachField(t *testing.T, text string, change func(value any) any, found func(path, text string)) {
	var root map[string]any
	must(t, json.Unmarshal([]byte(text), &root))
	var walk func(prefix string, object map[string]any)
	walk = func(prefix string, object map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(object)) {
			path, value := prefix+key, object[key]
			if other := change(value); other != nil {
				object[key] = other
			} else {
				delete(object, key)
			}
			changed, err := json.Marshal(root)
			must(t, err)
			found(path, string(changed))
			object[key] = value
			if inner, ok := value.(map[string]any); ok {
				walk(path+".", inner)
			}
		}
	}
	walk("", root)
}

// Each rule also holds for written values.
func TestWriteChecks(t *testing.T) {
	t.Parallel()
	valid := func() Envelope { return Envelope{ID: "e", Time: 1, Role: RoleAgent, Event: new(Stop)} }
	for _, test := range []struct {
		name   string
		change func(*Envelope)
		want   string
	}{
		{"nothing", func(e *Envelope) {}, ""},
		{"zero", func(e *Envelope) { *e = Envelope{} }, `role: must be "user" or "agent"; ev: is missing`},
		{"unknown role", func(e *Envelope) { e.Role = "session" }, `role: must be "user" or "agent"`},
		{"stop from the user", func(e *Envelope) { e.Role = RoleUser }, `role: must be "agent" for a stop event`},
		{"time", func(e *Envelope) { e.Time /= 0; e.Time *= 0 }, "time: must be a finite number"},
		{"subagent", func(e *Envelope) { e.Subagent = new("toolu_01") },
			"subagent: must be a cuid2: 2 to 32 lower-case letters and digits"},
		{"empty uuid", func(e *Envelope) { e.ClaudeUUID = new("") }, "claudeUuid: must not be empty"},
		{"unknown status", func(e *Envelope) { e.Event = &TurnEnd{Status: "done"} },
			`ev.status: must be "completed" or "failed" or "cancelled"`},
		{"tokens", func(e *Envelope) { e.Usage = &Usage{InputTokens: -1, OutputTokens: 1 << 53} },
			"usage.input_tokens: must be at least 0; usage.output_tokens: must be an integer within ±(2^53-1)"},
		{"a field twice", func(e *Envelope) { e.Usage = &Usage{Extra: Object{"input_tokens": []byte("1")}} },
			"usage.input_tokens: must not be among the other keys"},
		{"no JSON", func(e *Envelope) {
			e.Event = &ToolCallStart{Args: Object{"a": nil, "b": []byte("{"), "c": []byte("\"\xff\"")}}
		},
			"ev.args.a: must be JSON in UTF-8; ev.args.b: must be JSON in UTF-8; ev.args.c: must be JSON in UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := valid()
			test.change(&e)
			_, err := e.MarshalJSON()
			if got := message(err); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
		})
	}
}

// Every field is written at its place.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	meta := &MessageMeta{
		SentFrom: new("cli"), PermissionMode: new("plan"), Model: Value("m"), FallbackModel: Null[string](),
		CustomSystemPrompt: Value(""), AllowedTools: Value([]string{"Read", "a\"\\\u2028<"}), DisallowedTools: Value([]string{}),
		DisplayText: new("d"),
	}
	for name, test := range map[string]struct{ value, want any }{
		"envelope": {SessionProtocolMessage{Meta: meta, Content: Envelope{
			ID: "e\x00\u00e9\U0001F600", Time: 1739347230000.5, Role: RoleAgent, Turn: new(""), Subagent: new("ab"), ClaudeUUID: new("c"),
			CodexItemID: new("x"), Event: &Text{Text: "hi", Thinking: new(false)}, Usage: &Usage{
				InputTokens: 1, CacheCreationInputTokens: new(int64(2)), CacheReadInputTokens: new(int64(3)), OutputTokens: 4,
				ContextWindow: new(int64(5)), ServiceTier: new("t"), Extra: Object{"speed": []byte(`{"a":[1.0,null]}`), "": []byte("1")},
			},
		}}, `{"role":"session","content":{"id":"e\u0000é😀","time":1739347230000.5,"role":"agent","turn":"","subagent":"ab",` +
			`"claudeUuid":"c","codexItemId":"x","usage":{"input_tokens":1,"cache_creation_input_tokens":2,"cache_read_input_tokens":3,` +
			`"output_tokens":4,"context_window":5,"service_tier":"t","":1,"speed":{"a":[1.0,null]}},` +
			`"ev":{"t":"text","text":"hi","thinking":false}},"meta":{"sentFrom":"cli","permissionMode":"plan","model":"m",` +
			`"fallbackModel":null,"customSystemPrompt":"","allowedTools":["Read","a\"\\` + "\u2028" + `<"],"disallowedTools":[],"displayText":"d"}}`},
		"tool call": {ToolCallStart{Call: "c", Name: "n", Title: "t", Description: "d", Args: Object{"big": []byte("1e999"), "\n": []byte(`"\ud800"`)}},
			`{"t":"tool-call-start","call":"c","name":"n","title":"t","description":"d","args":{"\n":"\ud800","big":1e999}}`},
		"end of a tool call": {ToolCallEnd{Call: "c"}, `{"t":"tool-call-end","call":"c"}`},
		"how it ended":       {ToolCallEnd{Call: "c", Outcome: OutcomeDenied}, `{"t":"tool-call-end","call":"c","outcome":"denied"}`},
		"file": {File{Ref: "r", Name: "n", Size: 1e21, MimeType: new("image/png"), Image: &Image{Width: 1, Height: 0.5, Thumbhash: "h"}},
			`{"t":"file","ref":"r","name":"n","size":1e+21,"mimeType":"image/png","image":{"width":1,"height":0.5,"thumbhash":"h"}}`},
		"start":        {Start{Title: new("s")}, `{"t":"start","title":"s"}`},
		"end of turn":  {TurnEnd{Status: TurnCancelled}, `{"t":"turn-end","status":"cancelled"}`},
		"user message": {UserMessage{Text: "hi", LocalKey: new("k"), Meta: meta}, nil},
		"agent message": {AgentMessage{Type: "output", Content: Object{"data": []byte(`{"z":1,"a":2}`)}},
			`{"role":"agent","content":{"type":"output","data":{"z":1,"a":2}}}`},
		"session update": {CoreUpdateContainer{ID: "u", Seq: 2, CreatedAt: 3, Body: &UpdateSessionBody{
			ID: "s", Metadata: Value(VersionedEncryptedValue{Version: 1, Value: "v"}), AgentState: Value(VersionedNullableEncryptedValue{Version: 2}),
		}}, `{"id":"u","seq":2,"body":{"t":"update-session","id":"s","metadata":{"version":1,"value":"v"},"agentState":{"version":2,"value":null}},"createdAt":3}`},
		"machine update": {CoreUpdateContainer{Body: &UpdateMachineBody{
			MachineID: "m", Metadata: Null[VersionedMachineEncryptedValue](), DaemonState: Value(VersionedMachineEncryptedValue{}),
			Active: new(true), ActiveAt: new(4.0),
		}}, `{"id":"","seq":0,"body":{"t":"update-machine","machineId":"m","metadata":null,"daemonState":{"version":0,"value":""},"active":true,"activeAt":4},"createdAt":0}`},
		"new message": {CoreUpdateContainer{Body: &UpdateNewMessageBody{SID: "s", Message: SessionMessage{LocalID: Value("l"), Encrypted: "c"}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := test.value.(json.Marshaler).MarshalJSON()
			must(t, err)
			if test.want != nil && string(out) != test.want {
				t.Errorf("got  %s\nwant %s", out, test.want)
			}
			got := reflect.New(reflect.TypeOf(test.value))
			must(t, json.Unmarshal(out, got.Interface()))
			if !reflect.DeepEqual(got.Elem().Interface(), test.value) {
				t.Errorf("%s\nread as %+v\nwant    %+v", out, got.Elem(), test.value)
			}
		})
	}
}

// A value that the protocol does not have is refused only when it is written.
func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, other := range []string{`"exploded"`, `null`, `7`, `{}`, `""`} {
		e, err := ParseEvent([]byte(`{"t":"tool-call-end","call":"c","outcome":` + other + `}`))
		if want := Event(&ToolCallEnd{Call: "c"}); err != nil || !reflect.DeepEqual(e, want) {
			t.Errorf("outcome %s: got %+v, %v; want %+v", other, e, err, want)
		}
	}
	const want = `outcome: must be "done" or "started" or "failed" or "denied" or "cut"`
	if _, err := (ToolCallEnd{Call: "c", Outcome: "exploded"}).MarshalJSON(); message(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Half of a surrogate pair is kept, alone and next to another, in texts and in
// keys.
func TestSurrogates(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`\ud800`, `\udfff`, `x\ud83dy`, `\ude00\ud83d`, `\ud83d\ud83d\ude00`, `\udbff\u0001`, `\ud800\n`, `\ud800\\ud800`,
	} {
		in := `{"role":"agent","content":{"type":"` + text + `","` + text + `key":"` + text + `"}}`
		var m AgentMessage
		if err := json.Unmarshal([]byte(in), &m); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if out, err := m.MarshalJSON(); err != nil || !sameText(string(out), in) {
			t.Errorf("got  %s, %v\nwant %s", out, err, in)
		}
	}
	pair := UserMessage{}
	if err := json.Unmarshal([]byte(`{"role":"user","content":{"type":"text","text":"\uD83D\uDE00"}}`), &pair); err != nil || pair.Text != "\U0001F600" {
		t.Errorf("a pair: got %q, %v", pair.Text, err)
	}
	// Other bytes that are not UTF-8 cannot be written.
	out, err := UserMessage{Text: "\xff\xed\xa0"}.MarshalJSON()
	if want := `{"role":"user","content":{"type":"text","text":"` + "\uFFFD\uFFFD\uFFFD" + `"}}`; err != nil || string(out) != want {
		t.Errorf("got %s, %v, want %s", out, err, want)
	}
}

// sameText reports whether two JSON texts differ at most in how they escape
// characters that need no escape: a pair of surrogates.
func sameText(a, b string) bool {
	return strings.ReplaceAll(a, "😀", `\ud83d\ude00`) == b
}

// An error changes no value.
func TestUnmarshalErrorChangesNothing(t *testing.T) {
	t.Parallel()
	e := Envelope{ID: "before"}
	if err := json.Unmarshal([]byte(`{"id":"after"}`), &e); err == nil || e.ID != "before" {
		t.Errorf("got %+v, %v", e, err)
	}
	// A second read drops the values of the first one.
	m := MessageMeta{SentFrom: new("cli"), Model: Value("m")}
	if err := json.Unmarshal([]byte(`{}`), &m); err != nil || !reflect.DeepEqual(m, MessageMeta{}) {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestNullable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		json         string
		absent, null bool
		value        string
		ok           bool
	}{
		{json: `{}`, absent: true},
		{json: `{"model":null}`, null: true},
		{json: `{"model":""}`, ok: true},
		{json: `{"model":"m"}`, value: "m", ok: true},
	} {
		var m MessageMeta
		must(t, json.Unmarshal([]byte(test.json), &m))
		value, ok := m.Model.Value()
		if m.Model.IsAbsent() != test.absent || m.Model.IsNull() != test.null || value != test.value || ok != test.ok {
			t.Errorf("%s: got %v, %v, %q, %v", test.json, m.Model.IsAbsent(), m.Model.IsNull(), value, ok)
		}
	}
}

// A value does not share the memory of its text, which a reader of lines
// reuses.
func TestReadCopies(t *testing.T) {
	t.Parallel()
	data := []byte(`{"t":"tool-call-start","call":"c","name":"n","title":"t","description":"d","args":{"a":"b"}}`)
	e, err := ParseEvent(data)
	must(t, err)
	clear(data)
	want := &ToolCallStart{Call: "c", Name: "n", Title: "t", Description: "d", Args: Object{"a": []byte(`"b"`)}}
	if !reflect.DeepEqual(e, Event(want)) {
		t.Errorf("got %+v, want %+v", e, want)
	}
}

// The old names are the same types.
var (
	_ *ApiMessage            = (*SessionMessage)(nil)
	_ *ApiUpdateNewMessage   = (*UpdateNewMessageBody)(nil)
	_ *ApiUpdateSessionState = (*UpdateSessionBody)(nil)
	_ *ApiUpdateMachineState = (*UpdateMachineBody)(nil)
	_ *UpdateBody            = (*UpdateNewMessageBody)(nil)
	_ *Update                = (*CoreUpdateContainer)(nil)
)

// An accepted text is accepted again after writing, with the same meaning.
func FuzzRoundTrip(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.JSON))
	}
	f.Add([]byte(`{"role":"agent","content":{"type":"x","\ud83d\ude00":[1e5,"\udead"],"a":{"b":{}}},"meta":{"allowedTools":["\u0000"]}}`))
	f.Add([]byte(" {\"\\u0074\" : \"text\" ,\n\"text\":\"a\",\"t\":\"service\"} "))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, s := range schemas {
			v, err := s.read(data)
			if err != nil {
				continue
			}
			out, err := s.write(v)
			if err != nil {
				t.Fatalf("%s: %q was read and cannot be written: %v", name, data, err)
			}
			if strings.ContainsAny(string(out), "\n\r") {
				t.Errorf("%s: %q is not one line", name, out)
			}
			again, err := s.read(out)
			if err != nil {
				t.Fatalf("%s: %q was written as %q, which is refused: %v", name, data, out, err)
			}
			if last, err := s.write(again); err != nil || string(last) != string(out) {
				t.Errorf("%s: %q was written as %q, then as %q, %v", name, data, out, last, err)
			}
		}
	})
}

// elements finds the same elements as encoding/json.
func FuzzElements(f *testing.F) {
	for _, s := range []string{
		`[]`, `[ ]`, `[1]`, `[ -1.5e+3 , true,null ]`, `["\\","\"]",{"a":[1,{}],"b":"}"},[[],[2]]]`, "[\n\t\"\",\r0]", `["{",[{}]]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var whole json.RawMessage
		if json.Unmarshal(data, &whole) != nil {
			return
		}
		switch whole[0] {
		case '[':
			var want []json.RawMessage
			must(t, json.Unmarshal(whole, &want))
			equal := func(a []byte, b json.RawMessage) bool { return string(a) == string(b) }
			if got := elements(whole); !slices.EqualFunc(got, want, equal) {
				t.Errorf("%s: got %q, want %q", whole, got, want)
			}
		case '{':
			var want Object
			must(t, json.Unmarshal(whole, &want))
			got := Object{}
			for _, m := range members(whole) {
				got[replaceSurrogates(m.key)] = m.raw
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %q, want %q", whole, got, want)
			}
		}
	})
}

// replaceSurrogates changes a key as encoding/json does.
func replaceSurrogates(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if _, ok := surrogate(s[i:]); ok {
			b.WriteRune('\uFFFD')
			i += 3
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		b.WriteRune(r)
		i += size
	}
	return b.String()
}

func TestDerivedID(t *testing.T) {
	t.Parallel()
	ids := map[string][]string{}
	for _, parts := range [][]string{nil, {""}, {"a"}, {"a", "b"}, {"ab"}, {"ab", ""}, {"", "ab"}, {"b", "a"}, {"a", "", "b"}} {
		id := DerivedID(parts...)
		if !isCUID2(id) || len(id) != 24 || id[0] < 'a' {
			t.Errorf("id %q of %q is no cuid2 of 24 characters", id, parts)
		}
		if other, ok := ids[id]; ok {
			t.Errorf("%q and %q have the same id", parts, other)
		}
		ids[id] = parts
	}
	// It is kept in journals, so it must not change.
	if got, want := DerivedID("text", "b5a29fd1-a33c-4963-a0eb-6b609ae0bdb7", "0"), "ebqh3o6ui3jv2lxcbu5drkmk"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
