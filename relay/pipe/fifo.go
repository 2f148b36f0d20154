package pipe

// keep is the capacity up to which an empty fifo keeps its array. A larger array is freed, so that one burst does not
// use its memory for ever.
const keep = 1024

// fifo is a list that grows at the end and shrinks at the front. Values are moved only if that makes room for at
// least as many, so moves are rare.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

// all returns the values of the list. The slice is valid until the list changes.
func (f *fifo[T]) all() []T { return f.items[f.head:] }

func (f *fifo[T]) push(v T) {
	if len(f.items) == cap(f.items) && f.head > 0 && f.head >= f.len() {
		n := copy(f.items, f.all())
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

// drop removes n values from the front, and clears them, so that nothing that they point to is kept.
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
