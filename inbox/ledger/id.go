package ledger

import (
	"strings"

	"github.com/google/uuid"
)

// The namespaces of ids that [DeriveID] makes. Recorded rows have such ids, so a namespace never changes.
var (
	RelayIDs = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("teambridge/relay"))       // of deliveries by relays, and their runs
	ReplyIDs = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("teambridge/relay/reply")) // of messages about frames and requests
	PaneIDs  = uuid.MustParse("6f0d2a5e-3d5e-5d0c-9a64-0b4c3c6f1e77")            // of messages to and from panes and sessions
)

// DeriveID makes a version 5 UUID of a name in parts: the same parts always give the same UUID.
func DeriveID(namespace uuid.UUID, parts ...string) string {
	return uuid.NewSHA1(namespace, []byte(strings.Join(parts, "\n"))).String()
}
