// Package links has the other machines that there are links with, and carries messages to and from them. What is done here with what
// comes is up to whoever runs the carrier: see [Here].
package links

import (
	"time"

	"teambridge/status/local"
)

// Machines has the other machines that there are links with, and the entries of their members in teams here.
type Machines struct {
	*local.Files

	AccessWithin time.Duration // how long who ends the access of a machine waits for what just comes from it; 0: 30 s

	carrier *Carrier // of a service; nil in a command
}

// New returns Machines. It opens nothing.
func New(files *local.Files) *Machines { return &Machines{Files: files} }
