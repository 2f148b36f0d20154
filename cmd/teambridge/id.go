package main

import (
	"strings"

	"github.com/google/uuid"
)

// shortID returns an id as tables show it: the beginning of a random id or a digest, and any other id in full.
func shortID(id string) string {
	const digits = 8
	if u, err := uuid.Parse(id); err == nil && len(id) == 36 && (u.Version() == 4 || u.Version() == 5) {
		return id[:digits]
	}
	if hex, ok := strings.CutPrefix(id, "inbox-"); ok && len(hex) == 16 {
		return id[:len(id)-len(hex)+digits]
	}
	return id
}
