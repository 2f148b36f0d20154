package server

import (
	"net/http"
	"slices"
	"testing"

	"teambridge/relay/relaytest/simchild"
	"teambridge/status/api"
)

// A waiting plan is unchanged, and a relay shows its agent's present mode.
func TestPlanWaits(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	lead := h.add(t, r, "lead", `, "permissions": "ask", "mode": {"model": "opus"}`)
	stream := r.listen(t, "", "")
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, `ASK:ExitPlanMode {"plan": "# Plan\n<b>"}`, `, "mode": {"permissionMode": "plan"}`)), http.StatusCreated)
	isPlan := func(a api.Attention) bool {
		return a.Kind == api.WaitsPlan && a.Question != nil && a.Question.Plan == "# Plan\n<b>"
	}
	stream.until(api.EventSnapshot, func(e event) bool {
		return slices.ContainsFunc(as[api.Snapshot](t, e).Attention, isPlan)
	})
	if list := get[[]api.Attention](t, r, "/v1/attention?team="+band); len(list) != 1 || !isPlan(list[0]) {
		t.Errorf("%+v", list)
	}
	problem(t, r.ask(t, "GET", "/v1/attention?html=true", ""), api.CodeUsage)
	e := h.until(t, r, lead.ID, "asking", func(e api.RelayEntry) bool { return len(e.Questions) > 0 })
	if string(e.Settings) != `{"model":"opus","permissionMode":"plan"}` || string(e.Mode) != `{"model":"opus"}` {
		t.Errorf("it works with %s, and was added with %s", e.Settings, e.Mode)
	}
}
