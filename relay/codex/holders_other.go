//go:build !linux

package codex

import "time"

func holders(string) map[string]int { return nil }

func serverPID(string) int { return 0 }

func startOf(int) time.Time { return time.Time{} }
