package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"teambridge/cmd/stdio"
	"teambridge/relay/probe"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/teams"
)

// meaning returns the meaning of a point, or why it was not measured. said has the reasons that were shown
// already: on a busy machine, most points can have the same one, with a piece of the screen in it.
func meaning(f api.ProbePoint, said map[string]bool) string {
	switch {
	case f.Found != probe.Unsure.String():
		return f.Means
	case said[f.Why]:
		return "not measured, as above"
	}
	said[f.Why] = true
	return "not measured: " + plain.Escape(f.Why, false)
}

// lasted converts seconds to a duration, rounded to milliseconds, since 8.2 is slightly less than that as a float.
func lasted(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
}

// show prints a result.
func show(p api.Probe, r probe.Result) error {
	colour := func(code, s string) string { return s }
	if stdio.Colourful(os.Stdout, os.LookupEnv) {
		colour = func(code, s string) string { return "\x1b[" + code + "m" + s + "\x1b[0m" }
	}
	word := func(s string) string {
		if s == probe.Unsure.String() {
			return "?"
		}
		return s
	}
	rows := [][]string{{"POINT", "EXPECTED", "FOUND", "WHAT IT MEANS"}}
	said := map[string]bool{}
	for i, f := range p.Points {
		found, means := word(f.Found), meaning(f, said)
		switch {
		case f.Changed:
			found, means = colour("31", found), "CHANGED: "+means
		case r.Points[i].Unmeasured():
			found = colour("33", found)
		}
		rows = append(rows, []string{f.Says, word(f.Expected), found, means})
	}
	what, changed, missing := "all as expected", len(r.Changed()), len(r.Unmeasured())
	if changed > 0 || missing > 0 {
		what = strings.TrimPrefix(fmt.Sprintf("%d as expected", len(p.Points)-changed-missing), "0 as expected, ")
		if changed > 0 {
			what += fmt.Sprintf(", %d changed", changed)
		}
		if missing > 0 {
			what += fmt.Sprintf(", %d not measured", missing)
		}
	}
	listed := ""
	if !p.Listed {
		listed = ", which is newer than " + teams.Measured.String() + ","
	}
	_, err := fmt.Printf("%s\nClaude Code %s%s in %s: %s, %s\n", plain.Table(rows, stdio.Columns(os.Stdout), 3),
		p.Version, listed, lasted(p.Seconds), plain.Plural(len(p.Points), "point"), what)
	return err
}
