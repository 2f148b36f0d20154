package opencode

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/relaytest/standin"
	"teambridge/relay/wire"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// schema is a part of OpenCode's own description.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       string            `json:"type"`
	Enum       []string          `json:"enum"`
	OneOf      []schema          `json:"oneOf"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
}

// TestRealEvents checks the types of events against the description of the API.
func TestRealEvents(t *testing.T) {
	t.Parallel()
	home := standin.NewHome(t, nil)
	address, _ := standin.StartOpenCode(t, home)
	c := newClient(address, "", "")
	defer c.close()
	var doc struct {
		Components struct{ Schemas map[string]schema }
	}
	must(t, c.call(within(t), http.MethodGet, "/doc", nil, &doc))
	resolve := func(s schema) schema {
		if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
			return doc.Components.Schemas[name]
		}
		return s
	}
	var fits func(path string, s schema, field reflect.Type)
	fits = func(path string, s schema, field reflect.Type) {
		s = resolve(s)
		want := map[reflect.Kind]string{reflect.String: "string", reflect.Float64: "number", reflect.Struct: "object", reflect.Slice: "object"}[field.Kind()]
		if s.Type != want {
			t.Errorf("%s is %q, want %q", path, s.Type, want)
		}
		if field.Kind() != reflect.Struct {
			return
		}
		for f := range fieldsOf(field) {
			if !slices.Contains(s.Required, f) {
				t.Errorf("%s has no %s, or not always", path, f)
				continue
			}
			fits(path+"."+f, s.Properties[f], fieldsOf(field)[f])
		}
	}
	var kinds []string
	for _, s := range doc.Components.Schemas["SessionDurableEvent"].OneOf {
		s = resolve(s)
		enum := s.Properties["type"].Enum
		if len(enum) != 1 {
			t.Errorf("an event has the types %q", enum)
			continue
		}
		kinds = append(kinds, enum[0])
		data := newData(enum[0])
		if data == nil {
			if !slices.Contains(unused, enum[0]) {
				t.Errorf("%s is new: is it of use?", enum[0])
			}
			continue
		}
		fits(enum[0], s.Properties["data"], reflect.TypeOf(data).Elem())
		if at := resolve(s.Properties["data"]).Properties["timestamp"]; at.Type != "number" {
			t.Errorf("%s has a timestamp of type %q", enum[0], at.Type)
		}
		if s.Properties["id"].Type != "string" || resolve(s.Properties["durable"]).Properties["seq"].Type != "integer" {
			t.Errorf("%s has no id, or no number", enum[0])
		}
	}
	if len(kinds) != 14+len(unused) {
		t.Errorf("got %d types of events: %q", len(kinds), kinds)
	}
}

// fieldsOf are the JSON fields of a struct.
func fieldsOf(s reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for i := range s.NumField() {
		all[s.Field(i).Tag.Get("json")] = s.Field(i).Type
	}
	return all
}

// journal keeps each envelope once, as a relay does.
type journal struct {
	t   *testing.T
	ids []string
	all []string // shown
}

func (j *journal) add(list ...wire.Envelope) {
	for _, e := range list {
		if !slices.Contains(j.ids, e.ID) {
			j.ids, j.all = append(j.ids, e.ID), append(j.all, shown(j.t, e))
		}
	}
}

// read adds the envelopes of the conversation.
func (j *journal) read(ctx context.Context, r *Runtime, session string) (ids []string) {
	j.t.Helper()
	for e, err := range r.Conversation(ctx, session, time.Time{}, true) {
		must(j.t, err)
		j.add(e)
		ids = append(ids, e.ID)
	}
	return ids
}

// TestRealConversation: the live envelopes of a real session, through an interrupt and kills of
// its server, are those of its history, with the same ids in the same order.
func TestRealConversation(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	home := standin.NewHome(t, nil)
	r := New(Options{Command: []string{home.OpenCode(t)}, Env: home.Env(), Dir: home.Work, State: filepath.Join(home.Dir, "state")})
	t.Cleanup(func() { _ = r.Close() })
	session, j := uuid.NewString(), &journal{t: t}
	var a *Agent
	start := func() {
		t.Helper()
		j.read(ctx, r, session)
		var err error
		if a, err = r.start(ctx, session, mode.Mode{PermissionMode: mode.Set("bypassPermissions")}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Kill() })
	}
	// say sends a text and reads events until stop is true for one.
	say := func(text string, stop func(agent.Event) bool) (uuidOf string) {
		t.Helper()
		id := uuid.NewString()
		line, err := new(Runtime).Encode(id, text)
		must(t, err)
		must(t, a.Send(ctx, line))
		for e, err := range a.Events(ctx) {
			must(t, err)
			j.add(e.Envelopes...)
			if stop(e) {
				return id
			}
		}
		t.Fatalf("the agent ended: %v", a.Wait(ctx))
		return ""
	}
	inTool := func(e agent.Event) bool {
		event, ok := e.Payload.(Event)
		if ok {
			_, ok = event.Data.(*ToolCalled)
		}
		return ok
	}
	rest := func() {
		t.Helper()
		for e, err := range a.Events(ctx) {
			must(t, err)
			j.add(e.Envelopes...)
			if over(e) {
				return
			}
		}
	}

	start()
	say("hello", over)
	input, err := json.Marshal(map[string]string{"path": "a.txt", "content": "hi"})
	must(t, err)
	say(standin.CallLine("write", json.RawMessage(input)), over)
	id := say("TOOL:600", inTool)
	must(t, a.Interrupt(ctx, id))
	rest()
	say("TOOL:600", inTool)
	must(t, a.Kill())
	start()
	say("go on", over)
	id = say("SLEEP:600", func(e agent.Event) bool { return e.Start != nil })
	must(t, a.Interrupt(ctx, id))
	rest()
	say("SLEEP:600 cut", func(e agent.Event) bool { return e.Start != nil })
	must(t, a.Kill())
	history := j.read(ctx, r, session)
	if diff := cmp.Diff(history, j.ids); diff != "" {
		t.Errorf("told live, but not by the history in the same order (-history +live):\n%s", diff)
	}
	const want = `agent: turn
user: "hello"
agent: "ACK: hello"
agent: completed 10+0 5
agent: turn
user: "CALL:{\"input\":{\"content\":\"hi\",\"path\":\"a."
agent: write a.txt
agent: end of a tool: done
agent: file WORK/a.txt
agent: "done"
agent: completed 20+0 10
agent: turn
user: "TOOL:600"
agent: run ` + "`sleep 600`" + `
agent: end of a tool: cut
agent: cancelled 10+0 5
agent: turn
user: "TOOL:600"
agent: run ` + "`sleep 600`" + `
agent: end of a tool: cut
agent: failed
agent: turn
user: "go on"
agent: "done"
agent: completed 10+0 5
agent: turn
user: "SLEEP:600"
agent: cancelled
agent: turn
user: "SLEEP:600 cut"
agent: failed`
	if diff := cmp.Diff(want, strings.ReplaceAll(strings.Join(j.all, "\n"), home.Work, "WORK")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
