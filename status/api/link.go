package api

import "time"

// Links are the links of a machine with others.
type Links struct {
	Machine  string     `json:"machine,omitempty"`                       // the name of this machine; absent: it has none, and no links
	Card     string     `json:"card,omitempty"`                          // what others need to know of it, in one line; no secret
	Hub      string     `json:"hub,omitempty"`                           // the address of the hub; absent: none was chosen
	Trust    string     `json:"trust,omitempty"`                         // how the hub's certificate is checked; absent: as the system does
	State    string     `json:"state" enum:"connected,disconnected,off"` // [LinkConnected] and its like: of the connection with the hub; off: nothing here keeps one
	Since    *time.Time `json:"since,omitempty"`                         // since when it is connected, or is not
	Reason   string     `json:"reason,omitempty"`                        // why it is not connected, or the last error
	Machines []Machine  `json:"machines"`                                // sorted by name
}

// The states of the connection with the hub.
const (
	LinkConnected    = "connected"
	LinkDisconnected = "disconnected"
	LinkOff          = "off" // no service runs the links, or no hub was chosen
)

// Machine is another machine that this one has a link with.
type Machine struct {
	Machine string     `json:"machine"`
	Card    string     `json:"card"`                       // its keys, which are pinned
	State   string     `json:"state" enum:"here,away,new"` // away: it has been silent for 45 s or more; new: it has not reported its state yet
	Heard   *time.Time `json:"heard,omitempty"`            // when it was last heard
	Version string     `json:"version,omitempty"`          // of its teambridge
	Teams   []string   `json:"teams"`                      // the teams of this machine that it may write to
	Offers  []string   `json:"offers"`                     // its teams that this machine may write to, as TEAM@MACHINE
	Queued  int        `json:"queued"`                     // messages for it that the hub does not have yet
	Stored  int        `json:"stored"`                     // messages to it that the hub has, and that it has not confirmed
	Oldest  *time.Time `json:"oldest,omitempty"`           // when the oldest of these was sent

	Refused    int    `json:"refused"`              // how many of its messages, invalid frames and changes of its presence were refused since the service was started
	RefusedWhy string `json:"refusedWhy,omitempty"` // the last reason
}

// The states of a machine.
const (
	MachineHere = "here"
	MachineAway = "away" // it is silent
	MachineNew  = "new"  // it has not reported its state yet
)

// NewLink sets the name, the hub and the key of this machine.
type NewLink struct {
	Machine string `json:"machine,omitempty"` // the name of this machine: a to z, 0 to 9 and -, 32 at most; default: its present one. Another one is refused (409) while there are links
	// the address of the hub: ssh://[USER@]HOST[:PORT], tls://HOST[:PORT], or nats://HOST[:PORT] on this machine, and
	// nothing after it; default: the present one
	Hub    string `json:"hub,omitempty"`
	Trust  string `json:"trust,omitempty"`  // with a hub: a file of certificates, or the SHA-256 fingerprint of the hub's own; default: as the system does
	NewKey bool   `json:"newKey,omitempty"` // make a new key; the hub and the other machines then need the new card
}

// NewMachine is a machine to make a link with.
type NewMachine struct {
	Card    string   `json:"card"`              // as the card of Links there
	Teams   []string `json:"teams,omitempty"`   // teams here that it may write to
	Replace bool     `json:"replace,omitempty"` // take this card in place of the one that is pinned
}

// NewShare lets a machine write to a team, or no longer lets it.
type NewShare struct {
	Team string `json:"team"`           // a team here; it need not exist yet
	Stop bool   `json:"stop,omitempty"` // the machine may no longer write to it
}

// The states of a message on its way to another machine, before it is [Verified] there.
const (
	Queued   = "queued"   // it is in the ledger here
	Stored   = "stored"   // the hub has it
	Received = "received" // the ledger of the other machine has it
)

// WayMachine is the way to members on other machines, by a link.
const WayMachine = "machine"
