package pipe

// keep is the capacity up to which an empty fifo keeps its array, so that one
// burst does not hold its memory for ever.
const keep = 1024

// fifo is a list that grows at the end and shrinks at the front. Values are moved
// only when that makes room for at least as many, so each is moved seldom.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

// all returns what is in the list, valid until it is changed.
func (f *fifo[T]) all() []T { return f.items[f.head:] }

func (f *fifo[T]) push(v T) {
	if len(f.items) == cap(f.items) && f.head > 0 && f.head >= f.len() {
		n := copy(f.items, f.all())
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

// drop takes n values from the front, and lets go of what they point to.
func (f *fifo[T]) drop(n int) {
	clear(f.items[f.head : f.head+n])
	f.head += n
	if f.len() > 0 {
		return
	}
	f.items, f.head = f.items[:0], 0
	if cap(f.items) > keep {
		f.items = nil
	}
}
