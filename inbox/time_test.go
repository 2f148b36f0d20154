package inbox

import (
	"encoding/json"
	"testing"
)

// A time that JSON cannot encode counts as none: it would make the whole answer fail.
func TestRowTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-11-23T10:00:00.5+01:00": "2026-11-23T09:00:00.5Z",
		"9999-12-31T23:59:59Z":        "9999-12-31T23:59:59Z",
		"9999-12-31T23:59:59-01:00":   "", // the year 10000
		"0000-01-01T00:00:00+01:00":   "", // the year -1
		"10000-01-01T00:00:00Z":       "",
		"yesterday":                   "",
	} {
		at, ok := (&Row{Timestamp: text}).Time()
		if ok != (want != "") || !ok && !at.IsZero() {
			t.Errorf("%s: %v, %t", text, at, ok)
		}
		if data, err := json.Marshal(at); ok && (err != nil || string(data) != `"`+want+`"`) {
			t.Errorf("%s: %s, %v; want %s", text, data, err, want)
		}
	}
}
