//go:build !linux

package codex

func holders(string) map[string]int { return nil }

func serverPID(string) int { return 0 }
