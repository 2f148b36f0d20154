//go:build !windows

package simagent

import "os"

func rename(from, to string) error { return os.Rename(from, to) }

func readFile(path string) ([]byte, error) { return os.ReadFile(path) }
