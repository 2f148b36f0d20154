package api

import "testing"

func TestUntil(t *testing.T) {
	t.Parallel()
	row, prompt := Sent{Team: "ci", State: Verified}, Sent{Team: "ci", State: Verified, Delivery: "d"}
	typed, taken := Sent{Team: TeamPanes, State: Waiting, Delivery: "d"}, Sent{Team: TeamSessions, State: Confirmed, Delivery: "d"}
	away, there := Sent{Team: "ci@build", State: Queued, Delivery: "d"}, Sent{Team: "ci@build", State: Verified, Delivery: "d"}
	for _, test := range []struct {
		sent         Sent
		wanted, want string
	}{
		{row, "", ""}, {row, Received, Consumed}, {row, Seen, Seen},
		{prompt, "", ""}, {prompt, Received, Consumed},
		{typed, "", Confirmed}, {typed, Received, Confirmed}, {typed, Seen, Seen},
		{taken, "", ""}, {taken, Received, ""},
		{away, "", Verified}, {away, Received, Received}, {away, Stored, Stored},
		{there, "", ""}, {there, Received, Received},
	} {
		if got := test.sent.Until(test.wanted); got != test.want {
			t.Errorf("%+v, %q: %q, want %q", test.sent, test.wanted, got, test.want)
		}
	}
}
