package server

import (
	"net/http"
	"slices"
	"testing"

	"teambridge/relay/relaytest/simchild"
	"teambridge/status/api"
)

// A plan comes as HTML to those who ask for it, and a relay says how its agent works now.
func TestPlanAsHTML(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	lead := h.add(t, r, "lead", `, "permissions": "ask", "mode": {"model": "opus"}`)
	stream := r.listen(t, "?html=true", "")
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, `ASK:ExitPlanMode {"plan": "# Plan\n<b>"}`, `, "mode": {"permissionMode": "plan"}`)), http.StatusCreated)
	const want = "<h4>Plan</h4><p>&lt;b&gt;</p>"
	stream.until(api.EventSnapshot, func(e event) bool {
		list := as[api.Snapshot](t, e).Attention
		return slices.ContainsFunc(list, func(a api.Attention) bool { return a.Kind == api.WaitsPlan && a.HTML == want })
	})
	for query, html := range map[string]string{"?team=" + band + "&html=true": want, "?team=" + band: ""} {
		if list := get[[]api.Attention](t, r, "/v1/attention"+query); len(list) != 1 || list[0].HTML != html {
			t.Errorf("%s: %+v", query, list)
		}
	}
	e := h.until(t, r, lead.ID, "asking", func(e api.RelayEntry) bool { return len(e.Questions) > 0 })
	if string(e.Settings) != `{"model":"opus","permissionMode":"plan"}` || string(e.Mode) != `{"model":"opus"}` {
		t.Errorf("it works with %s, and was added with %s", e.Settings, e.Mode)
	}
}
