package pipe

// Poke puts a signal into a channel that has room for one, unless one is there already: whoever
// reads it looks at everything that has come by then.
func Poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
