package codex

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"teambridge/relay/process"
	"teambridge/teams/flock"
	"teambridge/teams/proc"
)

// holders returns the processes that hold the locks NAME.lock in a directory, by name.
func holders(dir string) map[string]int {
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		return nil
	}
	exact, by := flock.Holders(), map[string]int{} // by device and inode, and by inode alone
	for file, pid := range exact {
		by[file[strings.LastIndexByte(file, ':')+1:]] = pid
	}
	held := map[string]int{}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".lock")
		if !ok {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, f.Name()))
		if err != nil {
			continue
		}
		stat := info.Sys().(*syscall.Stat_t)
		dev, inode := uint64(stat.Dev), strconv.FormatUint(stat.Ino, 10)
		major, minor := dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff
		pid := exact[fmt.Sprintf("%02x:%02x:%s", major, minor, inode)]
		if pid == 0 && major == 0 { // btrfs and others, which have no device of their own, report another one there
			pid = by[inode]
		}
		if pid != 0 {
			held[name] = pid
		}
	}
	return held
}

// startOf returns when a process started, to within 20 ms; zero if that is unknown.
func startOf(pid int) time.Time {
	const perSecond = 100 // ticks, on every Linux
	booted := proc.Booted()
	ticks, err := strconv.ParseInt(process.Ticks(pid), 10, 64)
	if err != nil || booted.IsZero() {
		return time.Time{}
	}
	return booted.Add(time.Duration(ticks) * time.Second / perSecond).UTC()
}

// server is the process that listened on a socket.
type server struct {
	info os.FileInfo
	pid  int
}

var (
	serverMu sync.Mutex
	serverAt = map[string]server{} // by the directory of Codex
)

// serverPID returns the process that listens as the shared server; 0 if none does. It asks once for each socket. If
// that process has ended, the result is harmless: an ended process holds no thread.
func serverPID(home string) (pid int) {
	info, err := os.Stat(socket(home))
	if err != nil {
		return 0
	}
	serverMu.Lock()
	defer serverMu.Unlock()
	if s := serverAt[home]; s.pid != 0 && os.SameFile(s.info, info) && s.info.ModTime().Equal(info.ModTime()) {
		return s.pid
	}
	pid = listener(home)
	serverAt[home] = server{info, pid}
	return pid
}

// listener asks the system which process listens.
func listener(home string) (pid int) {
	c, err := net.DialTimeout("unix", socket(home), time.Second)
	if err != nil {
		return 0
	}
	defer c.Close()
	return process.Peer(c.(*net.UnixConn))
}
