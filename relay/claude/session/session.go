// Package session tells what Claude Code does as envelopes of the session protocol: from
// the lines that a headless process prints, and from the transcripts of all processes.
package session
