package main

import (
	"fmt"
	"slices"
	"strings"

	"teambridge/status/api"
)

// noise collects a run of messages that people need not read, and prints it as one line.
type noise struct {
	*app
	list []api.Record
}

// add adds a message if people need not read it, and reports whether it did.
func (n *noise) add(r api.Record) bool {
	if isNoise(r) {
		n.list = append(n.list, r)
		return true
	}
	return false
}

func isNoise(r api.Record) bool { return r.Noise && r.Work == nil }

// print prints the run, and starts a new one.
func (n *noise) print() error {
	if len(n.list) == 0 {
		return nil
	}
	list := n.list
	n.list = nil
	return n.app.printf("%s\n", n.paint(dim, clock(list[0].FirstSeen)+"  "+escape(noiseSummary(list), false)))
}

// noiseSummary summarizes messages that people need not read, such as "worker, tester: idle · 14 times, the
// last at 15:04:05".
func noiseSummary(list []api.Record) string {
	var words []string
	names := map[string][]string{} // by word
	for _, r := range list {
		word := map[string]string{"idle_notification": "idle", "shutdown_approved": "shuts down", "teammate_terminated": "ended"}[r.Kind]
		if names[word] == nil {
			words = append(words, word)
		}
		if !slices.Contains(names[word], r.From) {
			names[word] = append(names[word], r.From)
		}
	}
	for i, word := range words {
		words[i] = strings.Join(names[word], ", ") + ": " + word
	}
	text := strings.Join(words, "; ")
	if len(list) > 1 {
		text += fmt.Sprintf(" · %d times, the last at %s", len(list), clock(list[len(list)-1].FirstSeen))
	}
	return text
}
