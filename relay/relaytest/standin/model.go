package standin

import (
	"testing"

	"teambridge/relay/relaytest/model"
)

// The parts of package model that tests use.
type (
	API       = model.API
	Request   = model.Request
	Delivery  = model.Delivery
	Responder = model.Responder
	Answer    = model.Answer
	Call      = model.Call
)

// The agents that call the model.
const (
	Main     = model.Main
	Teammate = model.Teammate
	Any      = model.Any
)

// StartAPI starts an API for all programs that answers by the responder, or by Script if that is nil, and closes it when the test ends.
func StartAPI(t testing.TB, respond Responder) *API {
	t.Helper()
	a, err := model.Start(respond)
	if err != nil {
		t.Fatal(err)
	}
	a.ServeOthers()
	t.Cleanup(a.Close)
	return a
}

// Script is [model.Script].
var Script = model.Script

// CallLine is [model.CallLine].
func CallLine(tool string, input any) string { return model.CallLine(tool, input) }
