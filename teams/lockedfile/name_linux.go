package lockedfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// HoldName takes a lock between all processes of this user on this machine, whatever their state directories
// are, and keeps it until release. It waits until d has passed or ctx ends. The lock is an abstract unix
// socket, which has no file: the kernel frees it when the holder dies. Processes in another network
// namespace, as in most containers, do not see it.
//
// The error is a [*LockedError] if another process holds the lock, and errors.ErrUnsupported if the system
// has no such sockets or another user has taken the name.
func HoldName(ctx context.Context, d time.Duration, key string) (release func() error, err error) {
	start := time.Now()
	sum := sha256.Sum256([]byte(strconv.Itoa(os.Getuid()) + "\n" + key))
	addr := &net.UnixAddr{Net: "unix", Name: "@teambridge/" + hex.EncodeToString(sum[:16])}
	return within(ctx, d, func() (func() error, bool, error) {
		l, err := net.ListenUnix("unix", addr)
		if err == nil {
			return serveName(l), false, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil, false, fmt.Errorf("lock %s: %w: %w", addr, errors.ErrUnsupported, err)
		}
		pid, uid, err := nameHolder(addr)
		if err == nil && uid != os.Getuid() {
			return nil, false, fmt.Errorf("lock %s: %w: user %d has taken the name", addr, errors.ErrUnsupported, uid)
		}
		return nil, true, &LockedError{Path: addr.Name, Ours: true, PID: pid, Waited: time.Since(start)}
	})
}

// serveName accepts the connections of processes that ask for the holder of the name, and closes them.
func serveName(l *net.UnixListener) (release func() error) {
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_ = c.Close() // the connection alone identifies us
			} else {
				time.Sleep(time.Second) // out of descriptors: try later
			}
		}
	})
	return func() error {
		err := l.Close()
		serving.Wait()
		return err
	}
}

// nameHolder returns the process that listens at addr, and its user.
func nameHolder(addr *net.UnixAddr) (pid, uid int, err error) {
	c, err := net.DialUnix("unix", nil, addr)
	if err != nil {
		return 0, 0, err // the holder has just ended, or does not answer
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil || err != nil {
		return 0, 0, errors.Join(cerr, err)
	}
	return int(cred.Pid), int(cred.Uid), nil
}
