package ledger

// On macOS fsync leaves data in the drive's cache unless the caller sets F_FULLFSYNC. Go's os.File.Sync sets it;
// SQLite sets it only with this PRAGMA.
const andDriveCache = "; PRAGMA fullfsync=1"
