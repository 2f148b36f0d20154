package lockedfile

import "testing"

func TestHolderIn(t *testing.T) {
	t.Parallel()
	const locks = `1: POSIX  ADVISORY  WRITE 11 fe:00:5678 0 EOF
2: FLOCK  ADVISORY  WRITE 12 fe:01:5678 0 EOF
3: FLOCK  ADVISORY  WRITE 13 fe:00:5678 0 EOF
3: -> FLOCK  ADVISORY  WRITE 14 fe:00:5678 0 EOF
4: FLOCK  ADVISORY  WRITE 0 fe:00:9 0 EOF
`
	for inode, want := range map[string]int{"fe:00:5678": 13, "fe:01:5678": 12, "fe:00:9": 0, "fe:00:1": 0} {
		if got := holderIn(locks, inode); got != want {
			t.Errorf("the holder of %s: %d, want %d", inode, got, want)
		}
	}
}
