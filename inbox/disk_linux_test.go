package inbox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"teambridge/inbox"
	"teambridge/teams/lockedfile"
)

// On a full disk, with room for nothing, for the lock only, or for a part of the file, the message is not sent,
// nothing is lost, and no file is left. Once there is room, the message can be sent under its id.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, free := range []int{0, 1, 3} { // pages
		for _, exists := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d pages free, file %v", free, exists), func(t *testing.T) {
				t.Parallel()
				disk := smallDisk(t, "size=256k")
				p := newPlaceIn(t, disk, filepath.Dir(disk))
				var before []byte
				m := numbered("m", 0)
				if exists {
					for i := range 3 { // several pages
						big := numbered("big", i)
						big.Text = fmt.Sprintf("%08000d", i)
						if _, err := p.open(lockedfile.Options{}).Append(t.Context(), big, inbox.AppendOptions{Memory: p.memory()}); err != nil {
							t.Fatal(err)
						}
					}
					before = p.content()
				} else {
					m.Text = fmt.Sprintf("%020000d", 0)
				}
				junk := fill(t, disk, free)
				b := p.open(lockedfile.Options{})
				if _, err := b.Append(t.Context(), m, inbox.AppendOptions{Memory: p.memory()}); !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("got %v, want ENOSPC", err)
				}
				if exists {
					p.wantNames("alice.json")
					if got := p.content(); string(got) != string(before) {
						t.Errorf("the file has changed, %d bytes from %d", len(got), len(before))
					}
				} else {
					p.wantNames()
				}
				// A process that another test starts at this moment keeps the file open until it executes its
				// program.
				must(t, errors.Join(os.Truncate(junk, 0), os.Remove(junk)))
				r, err := b.Append(t.Context(), m, inbox.AppendOptions{Memory: p.memory()})
				if err != nil || r.Deduplicated || p.count("m-0") != 1 {
					t.Errorf("sent again with room: %+v, %v", r, err)
				}
			})
		}
	}
}

// With no inode left for the lock or for the temporary file, an append fails with ENOSPC and changes nothing.
func TestInodesFull(t *testing.T) {
	t.Parallel()
	for free := range 2 {
		disk := smallDisk(t, fmt.Sprintf("size=256k,nr_inodes=%d", 8+free))
		p := newPlaceIn(t, disk, filepath.Dir(disk))
		p.write([]byte(foreign))
		// Inodes in use: the root, claude, teams, demo, config.json, inboxes, alice.json.
		must(t, os.WriteFile(filepath.Join(disk, "junk"), nil, 0o600))
		if _, err := p.open(lockedfile.Options{}).Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d free: got %v, want ENOSPC", free, err)
		}
		if got := string(p.content()); got != foreign {
			t.Errorf("%d free: the file has changed", free)
		}
		p.wantNames("alice.json")
	}
}

// smallDisk mounts a small file system.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	must(t, os.Mkdir(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("mounting a small tmpfs is not possible here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file that leaves the given number of pages of the disk free.
func fill(t *testing.T, disk string, free int) (junk string) {
	t.Helper()
	junk = filepath.Join(disk, "junk")
	f, err := os.Create(junk)
	must(t, err)
	defer f.Close()
	page := make([]byte, os.Getpagesize())
	size := int64(0)
	for {
		n, err := f.Write(page)
		size += int64(n)
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		must(t, err)
	}
	must(t, f.Truncate(size-int64(free*len(page))))
	return junk
}
