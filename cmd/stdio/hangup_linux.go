package stdio

import (
	"context"
	"errors"
	"os"
	"syscall"
)

// HangUp waits until nobody can read what is written to f, and returns true. It returns
// false when ctx ends, or if f is not a pipe or the like.
func HangUp(ctx context.Context, f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	events, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	defer syscall.Close(events)
	ended, end, err := os.Pipe()
	if err != nil {
		return false
	}
	defer ended.Close()
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		end.Close()
	})
	defer func() {
		if stop() {
			end.Close()
		} else {
			<-closed
		}
	}()
	// Errors and a closed reader are reported even if no event is requested.
	stdout := -1
	cerr := conn.Control(func(fd uintptr) {
		stdout = int(fd)
		err = syscall.EpollCtl(events, syscall.EPOLL_CTL_ADD, stdout, &syscall.EpollEvent{Fd: int32(stdout)})
	})
	wake := int(ended.Fd())
	if errors.Join(cerr, err, syscall.EpollCtl(events, syscall.EPOLL_CTL_ADD, wake, &syscall.EpollEvent{Fd: int32(wake)})) != nil {
		return false
	}
	for {
		var happened [2]syscall.EpollEvent
		n, err := syscall.EpollWait(events, happened[:], -1)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		return err == nil && n == 1 && happened[0].Fd == int32(stdout)
	}
}
