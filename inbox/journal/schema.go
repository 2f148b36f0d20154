package journal

import (
	_ "embed"
	"time"

	"teambridge/inbox/sqlite"
)

//go:embed schema.sql
var schema string

func format() sqlite.Format {
	return sqlite.Format{
		Name:        "journal",
		Application: 0x74624a6f, // "tbJo"
		Retired:     0x74624a4e, // "tbJN"
		Schema:      []string{schema},
		// So that Prune can give space back without writing the file again.
		Create: "PRAGMA auto_vacuum=INCREMENTAL",
		// The cache is nearly all that a service's memory grows by, once for each of its
		// two journals: with 8 MiB, 60,000 messages later, they had 34 MiB, with 2 MiB
		// they have 16. The system has the file in its memory, too.
		Setup: "PRAGMA synchronous=NORMAL; PRAGMA cache_size=-2048",
	}
}

// micros is a time as it is in the database; NULL for none.
func micros(t time.Time) sqlite.Value {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}
