package ledger

// On macOS fsync leaves the data in the drive's cache unless F_FULLFSYNC is
// asked for. Go's os.File.Sync asks for it, SQLite only when told.
const andDriveCache = "; PRAGMA fullfsync=1"
