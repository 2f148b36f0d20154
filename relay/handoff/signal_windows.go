package handoff

import "os"

// endSignals is empty: Windows has no such signals, and this package no terminal there.
var endSignals []os.Signal
