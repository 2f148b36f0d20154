//go:build !linux

package relay

const envFull = "RELAY_TEST_FULL"

func fullDisks() map[string]func(string) int { return nil }
