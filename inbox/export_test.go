package inbox

import (
	"context"
	"slices"
)

// NewDraft makes a draft of a file that is not on disk. Find, Set and Remove work on it, and Content is what Edit
// would write.
func NewDraft(data []byte) (*Draft, error) {
	spans, err := elements(data, nil)
	if err != nil {
		return nil, err
	}
	// Clipped, so that appending does not write into the memory of the test.
	return &Draft{data: slices.Clip(data), spans: spans}, nil
}

func (d *Draft) Append(row []byte) { d.append(row) }

func (d *Draft) Content() ([]byte, error) { return d.content() }

// Take removes the rows that match from the inbox, and returns them.
func (b *Inbox) Take(ctx context.Context, match func(Row) bool) (taken []Row, err error) {
	err = b.Edit(ctx, func(d *Draft) error {
		taken = nil
		for i, row := range d.All() {
			if match(row) {
				taken = append(taken, row)
				d.Remove(i)
			}
		}
		return nil
	})
	return taken, err
}
