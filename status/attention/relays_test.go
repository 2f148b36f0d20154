package attention

import (
	"testing"

	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/status/api"
)

// A relay that begins to run after its record was read is not shown as one that works or sleeps and does not run.
func TestRelayThatHasJustStarted(t *testing.T) {
	t.Parallel()
	for now, want := range map[relay.Status]api.Relay{
		{State: relay.Idle}:                        {State: "starting"},
		{State: relay.Working}:                     {State: "starting"},
		{State: relay.Asleep, Reason: "it slept"}:  {State: "starting"},
		{State: relay.BackOff, Reason: "it died"}:  {State: "starting"},
		{State: relay.Dead, Reason: "it died"}:     {State: "dead", Reason: "it died"},
		{State: relay.Stopped, Reason: "no team"}:  {State: "stopped", Reason: "no team"},
		{State: relay.Waiting, Reason: "for them"}: {State: "waiting", Reason: "for them"},
		{}: {State: "stopped"},
	} {
		got := api.Relay{State: "stopped"}
		if addReason(&got, fleet.Status{Now: now}); got.State != want.State || got.Reason != want.Reason {
			t.Errorf("%+v: %s (%s), want %s (%s)", now, got.State, got.Reason, want.State, want.Reason)
		}
		got = api.Relay{State: "idle", Running: true}
		if addReason(&got, fleet.Status{Now: now}); got.State != "idle" || got.Reason != "" {
			t.Errorf("%+v: of one that runs: %s (%s)", now, got.State, got.Reason)
		}
	}
}
