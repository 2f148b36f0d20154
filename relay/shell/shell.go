// Package shell quotes words of command lines, for programs that run them and for people who
// copy them, and tells how a shell finds this program.
package shell

import "strings"

// Quote quotes s, if needed, as one word of a POSIX shell.
func Quote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
