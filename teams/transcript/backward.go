package transcript

import (
	"bytes"
	"io"
	"iter"
)

// Backward iterates over the lines of a file of that size, the last one first, until one cannot be read. A line is valid until the next
// one. More of the file is read only if the lines near its end do not do.
func Backward(file io.ReaderAt, size int64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		end, part := size, int64(64<<10)
		for end > 0 {
			begin := max(0, end-part)
			data := make([]byte, end-begin)
			if _, err := file.ReadAt(data, begin); err != nil && err != io.EOF {
				return
			}
			if begin > 0 { // the first line is whole only if one ends before it
				i := bytes.IndexByte(data, '\n')
				if i < 0 || i == len(data)-1 {
					part *= 8
					continue
				}
				begin, data = begin+int64(i)+1, data[i+1:]
			}
			for len(data) > 0 {
				data = bytes.TrimSuffix(data, []byte("\n"))
				i := bytes.LastIndexByte(data, '\n') + 1
				if !yield(data[i:]) {
					return
				}
				data = data[:i]
			}
			end = begin
		}
	}
}
