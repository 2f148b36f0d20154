//go:build !darwin

package ledger

// Elsewhere fsync reaches the disk.
const andDriveCache = ""
