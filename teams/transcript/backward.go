package transcript

import (
	"io"
	"iter"
)

// Backward iterates over the lines of a file of that size as [Tail.Lines] yields them, but the last one first, until one cannot be read. A
// line is valid until the next one. More of the file is read only if the lines near its end do not do. Of a line that is longer than [Tail] reads, a part comes.
func Backward(file io.ReaderAt, size int64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, line := range backward(file, size) {
			if !yield(line) {
				return
			}
		}
	}
}
