package sqlite

// makePrivate: a file has the rights of its directory, and the state directory
// is in the user's profile.
func makePrivate(string) error { return nil }

// syncDir: Windows cannot flush a directory through a handle Go opens; NTFS
// journals names itself.
func syncDir(string) error { return nil }
