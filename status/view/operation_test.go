package view

import (
	"slices"
	"testing"

	"teambridge/status/api/op"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	for hint, want := range map[string]string{
		"":                      "",
		"choose another name":   "choose another name",
		"restart with --listen": "restart with --listen",
		"list the members with: teambridge members": "list the members with: GET /v1/teams/{team}/members",
		"list the members with: teambridge members; --include-lead, or includeLead in the API, sends to the lead too": "list the members with: GET /v1/teams/{team}/members",
		"look for the message with: teambridge read; then send it again under the same id":                            "look for the message with: GET /v1/teams/{team}/inboxes; then send it again under the same id",
		"it will not be sent later; with a service (teambridge serve), messages wait for 15 minutes":                  "it will not be sent later",
		`you have joined t as operator, so that agents can answer; "teambridge leave" undoes it`:                      "you have joined t as operator, so that agents can answer; POST /v1/teams/{team}/leave undoes it",
		"see it with: teambridge relay list --relays; to replace it: teambridge relay remove 4711":                    "see it with: GET /v1/relays; to replace it: DELETE /v1/relays/{relay}",
		"nothing was sent; see teambridge send --help":                                                                "nothing was sent",
		"start one with: teambridge serve":                                                                            "",
	} {
		if got := Operations(hint); got != want {
			t.Errorf("%q: %q, want %q", hint, got, want)
		}
	}
	var routes []string
	for _, o := range op.All() {
		r := o.Info()
		routes = append(routes, r.Method+" "+r.Path)
	}
	for name, route := range commands {
		if !slices.Contains(routes, route) {
			t.Errorf("%s is %s, which is no operation", name, route)
		}
	}
}
