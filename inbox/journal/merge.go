package journal

import "iter"

// Merge yields the items of several sequences in the order of their numbers, in which each sequence must be: the
// highest number first with newest, as in [Query]. An item of several sequences is yielded once. Merge ends with the
// first error.
func Merge[T any](newest bool, number func(T) int64, sequences ...iter.Seq2[T, error]) iter.Seq2[T, error] {
	type source struct {
		next func() (T, error, bool)
		item T
		err  error
		ok   bool
	}
	return func(yield func(T, error) bool) {
		var sources []*source
		for _, s := range sequences {
			next, stop := iter.Pull2(s)
			defer stop()
			from := &source{next: next}
			from.item, from.err, from.ok = next()
			sources = append(sources, from)
		}
		for {
			var first *source
			for _, s := range sources {
				switch {
				case !s.ok:
				case s.err != nil:
					yield(s.item, s.err)
					return
				case first == nil || number(s.item) < number(first.item) != newest:
					first = s
				}
			}
			if first == nil {
				return
			}
			item := first.item
			if !yield(item, nil) {
				return
			}
			for _, s := range sources {
				if s.ok && s.err == nil && number(s.item) == number(item) {
					s.item, s.err, s.ok = s.next()
				}
			}
		}
	}
}

// Map yields f's result for each item, except nil. It ends with the first error.
func Map[T, U any](items iter.Seq2[T, error], f func(T) (*U, error)) iter.Seq2[U, error] {
	return func(yield func(U, error) bool) {
		for item, err := range items {
			var made *U
			if err == nil {
				made, err = f(item)
			}
			switch {
			case err != nil:
				var none U
				yield(none, err)
				return
			case made != nil && !yield(*made, nil):
				return
			}
		}
	}
}

// Take returns the first items, at most limit and with at most total as the sum of their weights, and whether there
// are more. It returns at least one if items has any.
func Take[T any](items iter.Seq2[T, error], limit, total int, weight func(*T) int) (list []T, more bool, err error) {
	for item, err := range items {
		if err != nil {
			return nil, false, err
		}
		if len(list) == limit {
			return list, true, nil
		}
		if total -= weight(&item); total < 0 && len(list) > 0 {
			return list, true, nil
		}
		list = append(list, item)
	}
	return list, false, nil
}
