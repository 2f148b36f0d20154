package view

import "strings"

// ShellQuote quotes s, if needed, as one word of a POSIX shell.
func ShellQuote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// HistoryHint says how to see what was said in a team that has ended.
func HistoryHint(team string) string {
	return "see what was said: teambridge history --team " + ShellQuote(team)
}
