package ledger

import (
	_ "embed"

	"teambridge/inbox/sqlite"
)

//go:embed schema.sql
var schema string

func format() sqlite.Format {
	return sqlite.Format{
		Name:        "ledger",
		Application: 0x74624c65, // "tbLe"
		Retired:     0x74624c47, // "tbLG"
		Schema:      []string{schema},
		// A process that ends without Close leaves its log, and the next
		// one has to read it: 64 pages take 0.1 ms, the default of 1000
		// takes 1.5 ms.
		Setup: "PRAGMA wal_autocheckpoint=64",
	}
}
