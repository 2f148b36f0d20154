package main

import "github.com/spf13/cobra"

// similar returns the names that typed may be a typo of, by Cobra's rules: names that begin with it, and names that
// differ in 1 letter, or in 2 if typed has at least 4.
func similar(typed string, names []string) []string {
	if len(typed) < 2 {
		return nil // too many names are similar to one letter
	}
	among := &cobra.Command{SuggestionsMinimumDistance: min(len(typed)/2, 2)}
	for _, name := range names {
		among.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return among.SuggestionsFor(typed)
}
