package alert

import "io/fs"

// private does nothing: the modes that package os makes up say nothing about who can read.
func private(string, fs.FileInfo) error { return nil }
