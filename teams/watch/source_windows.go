package watch

// openKernel has nothing on Windows. fsnotify 1.10 closes the handle of a directory when it is removed, and once more when it reads
// what was queued for it. By then the handle can belong to any other file of this process.
func openKernel() (source, error) { return nil, nil }
