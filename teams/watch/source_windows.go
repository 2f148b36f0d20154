package watch

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"unsafe"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/windows"
)

// maxPending is how many events wait for us at most. Beyond it, everything is looked at.
const maxPending = 1 << 14

// kernel asks Windows itself. fsnotify 1.10 closes the handle of a directory when it is removed, and once more when it
// reads what was queued for it. By then the handle can belong to any other file of this process.
type kernel struct {
	port windows.Handle
	asks chan ask // each with a packet, so that loop looks
	out  chan fsnotify.Event
	bad  chan error
	raw  chan fsnotify.Event // from loop to pump, which always takes it
	done chan struct{}       // closed when loop has ended

	mu     sync.Mutex
	closed bool
}

// An ask is what loop is to do: add or remove a directory, or end.
type ask struct {
	add, remove string
	reply       chan error
}

// A directory has a read under way for as long as it is open. Only the end of that read closes it.
type directory struct {
	read   windows.Overlapped // first: what is queued is the address of this
	handle windows.Handle
	path   string
	left   bool         // it was removed
	found  [4096]uint32 // what the read found, aligned as Windows wants it
}

func openKernel() (source, error) {
	port, err := windows.CreateIoCompletionPort(windows.InvalidHandle, 0, 0, 1)
	if err != nil {
		return nil, os.NewSyscallError("CreateIoCompletionPort", err)
	}
	k := &kernel{
		port: port,
		asks: make(chan ask, 1),
		out:  make(chan fsnotify.Event),
		bad:  make(chan error, 1),
		raw:  make(chan fsnotify.Event),
		done: make(chan struct{}),
	}
	go k.loop()
	go k.pump()
	return k, nil
}

func (k *kernel) events() <-chan fsnotify.Event { return k.out }
func (k *kernel) errors() <-chan error          { return k.bad }
func (k *kernel) Add(dir string) error          { return k.ask(ask{add: filepath.Clean(dir)}) }
func (k *kernel) Remove(dir string) error       { return k.ask(ask{remove: filepath.Clean(dir)}) }

func (k *kernel) Close() error {
	if err := k.ask(ask{}); err != nil {
		return err
	}
	<-k.done
	return nil
}

func (k *kernel) ask(a ask) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return fsnotify.ErrClosed
	}
	k.closed = a.add == "" && a.remove == ""
	a.reply = make(chan error, 1)
	k.asks <- a
	if err := windows.PostQueuedCompletionStatus(k.port, 0, 0, nil); err != nil {
		<-k.asks
		k.closed = false
		return os.NewSyscallError("PostQueuedCompletionStatus", err)
	}
	select {
	case err := <-a.reply:
		return err
	case <-k.done:
		return fsnotify.ErrClosed
	}
}

// loop starts and ends all reads, in one thread: a read ends with the thread that started it.
func (k *kernel) loop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(k.done)
	defer close(k.raw)
	defer windows.CloseHandle(k.port)
	byPath := map[string]*directory{}
	open := map[*directory]bool{} // which also keeps what Windows writes to
	leave := func(d *directory) {
		d.left = true
		windows.CancelIoEx(d.handle, &d.read) // fails if the read has ended, and then that is queued
	}
	shut := func(d *directory) {
		windows.CloseHandle(d.handle)
		delete(open, d)
		if byPath[d.path] == d {
			delete(byPath, d.path)
		}
	}
	for ending := false; !ending || len(open) > 0; {
		var n uint32
		var key uintptr
		var read *windows.Overlapped
		err := windows.GetQueuedCompletionStatus(k.port, &n, &key, &read, windows.INFINITE)
		if read == nil {
			if err != nil { // nothing comes any more
				k.report(os.NewSyscallError("GetQueuedCompletionStatus", err))
				return
			}
			a := <-k.asks
			switch {
			case a.add != "":
				var d *directory
				if d, err = k.open(a.add); err == nil {
					if earlier := byPath[a.add]; earlier != nil { // perhaps of another directory that had the name
						leave(earlier)
					}
					byPath[a.add], open[d] = d, true
				}
			case a.remove != "":
				if d := byPath[a.remove]; d != nil {
					delete(byPath, a.remove)
					leave(d)
				} else {
					err = fsnotify.ErrNonExistentWatch
				}
			default:
				ending = true
				for d := range open {
					leave(d)
				}
			}
			a.reply <- err
			continue
		}
		d := (*directory)(unsafe.Pointer(read))
		switch {
		case d.left:
			shut(d)
			continue
		case errors.Is(err, windows.ERROR_NOTIFY_ENUM_DIR), err == nil && n == 0:
			k.report(fsnotify.ErrEventOverflow)
		case err != nil: // the directory was deleted
			shut(d)
			k.raw <- fsnotify.Event{Name: d.path, Op: fsnotify.Remove}
			continue
		default:
			k.tell(d, n)
		}
		if err := d.start(); err != nil {
			shut(d)
			k.raw <- fsnotify.Event{Name: d.path, Op: fsnotify.Remove}
		}
	}
}

// open begins to read what changes in a directory.
func (k *kernel) open(path string) (*directory, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	handle, err := windows.CreateFile(name, windows.FILE_LIST_DIRECTORY,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OVERLAPPED, 0)
	if err != nil {
		return nil, &os.PathError{Op: "watch", Path: path, Err: err}
	}
	d := &directory{handle: handle, path: path}
	if _, err = windows.CreateIoCompletionPort(handle, k.port, 0, 0); err == nil {
		err = d.start()
	}
	if err != nil {
		windows.CloseHandle(handle)
		return nil, &os.PathError{Op: "watch", Path: path, Err: err}
	}
	return d, nil
}

func (d *directory) start() error {
	return windows.ReadDirectoryChanges(d.handle, (*byte)(unsafe.Pointer(&d.found)), uint32(unsafe.Sizeof(d.found)), false,
		windows.FILE_NOTIFY_CHANGE_FILE_NAME|windows.FILE_NOTIFY_CHANGE_DIR_NAME|windows.FILE_NOTIFY_CHANGE_LAST_WRITE,
		nil, &d.read, 0)
}

// tell hands out the n bytes that were found, as fsnotify would.
func (k *kernel) tell(d *directory, n uint32) {
	for offset := uint32(0); ; {
		raw := (*windows.FileNotifyInformation)(unsafe.Add(unsafe.Pointer(&d.found), offset))
		name := windows.UTF16ToString(unsafe.Slice(&raw.FileName, raw.FileNameLength/2))
		var op fsnotify.Op
		switch raw.Action {
		case windows.FILE_ACTION_ADDED, windows.FILE_ACTION_RENAMED_NEW_NAME:
			op = fsnotify.Create
		case windows.FILE_ACTION_REMOVED:
			op = fsnotify.Remove
		case windows.FILE_ACTION_MODIFIED:
			op = fsnotify.Write
		case windows.FILE_ACTION_RENAMED_OLD_NAME:
			op = fsnotify.Rename
		}
		if op != 0 {
			k.raw <- fsnotify.Event{Name: filepath.Join(d.path, name), Op: op}
		}
		if raw.NextEntryOffset == 0 {
			return
		}
		if offset += raw.NextEntryOffset; offset >= n {
			k.report(fsnotify.ErrEventOverflow)
			return
		}
	}
}

// report says that everything has to be looked at. One that was not read yet says the same.
func (k *kernel) report(err error) {
	select {
	case k.bad <- err:
	default:
	}
}

// pump keeps what comes until it is read: the watcher adds directories in the loop that reads the events, so that
// neither may wait for the other.
func (k *kernel) pump() {
	defer close(k.bad)
	defer close(k.out)
	var pending []fsnotify.Event
	for {
		var first fsnotify.Event
		var out chan<- fsnotify.Event
		if len(pending) > 0 {
			first, out = pending[0], k.out
		}
		select {
		case e, ok := <-k.raw:
			if !ok {
				return
			}
			if len(pending) == maxPending {
				k.report(fsnotify.ErrEventOverflow)
				continue
			}
			pending = append(pending, e)
		case out <- first:
			pending = pending[1:]
		}
	}
}
