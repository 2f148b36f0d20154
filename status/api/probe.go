package api

import "time"

// Probe is the result of "teambridge-probe" for one Claude Code.
type Probe struct {
	Version string       `json:"version"`
	Listed  bool         `json:"listed"`  // it is not newer than the versions that teambridge was measured with
	Command []string     `json:"command"` // the program and its arguments
	At      time.Time    `json:"at"`
	Seconds float64      `json:"seconds"`
	Points  []ProbePoint `json:"points"`
}

// ProbePoint is a statement about a Claude Code. Expected and Found are yes, no or unsure.
type ProbePoint struct {
	Name     string `json:"name"`
	Says     string `json:"says"`
	Expected string `json:"expected"` // unsure: it was never measured on this version
	Found    string `json:"found"`    // unsure: it could not be measured
	Means    string `json:"means"`    // what the result means for teambridge
	Changed  bool   `json:"changed"`
	Why      string `json:"why,omitempty"` // why it could not be measured
}
