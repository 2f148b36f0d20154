package wire

// Nullable is a field that may be absent, null, or a value. The zero Nullable
// is absent.
type Nullable[T any] struct {
	present bool
	value   *T // nil: null, if present
}

// Value returns a Nullable with a value.
func Value[T any](v T) Nullable[T] { return Nullable[T]{present: true, value: &v} }

// Null returns the Nullable that is null.
func Null[T any]() Nullable[T] { return Nullable[T]{present: true} }

// IsAbsent reports whether the key is missing.
func (n Nullable[T]) IsAbsent() bool { return !n.present }

// IsNull reports whether the key is present, with the value null.
func (n Nullable[T]) IsNull() bool { return n.present && n.value == nil }

// Value returns the value. ok is false if n is absent or null.
func (n Nullable[T]) Value() (v T, ok bool) {
	if n.value == nil {
		return v, false
	}
	return *n.value, true
}
