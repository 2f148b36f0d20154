// Package links keeps the links with other machines, and exchanges messages with them. The user of a carrier
// decides what is done with incoming messages: see [Here].
package links

import (
	"time"

	"teambridge/status/local"
)

// Machines are the linked machines, and the entries of their members in teams here.
type Machines struct {
	*local.Files

	AccessWithin time.Duration // how long to wait, when access ends, for a message that is just being delivered; 0: 30 s

	carrier *Carrier // of a service; nil in a command
}

// New returns Machines. It opens nothing.
func New(files *local.Files) *Machines { return &Machines{Files: files} }
