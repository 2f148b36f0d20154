package probe

import "time"

// Quick sets the timeouts of options for a test, by the names of points; "starts" stands for a program without first
// output. half chooses the homes in which points are measured.
func Quick(o Options, patience func(point string) time.Duration, half func([]Point) bool) Options {
	o.Step, o.Hold, o.Limit = time.Minute, 20*time.Millisecond, 5*time.Minute
	o.patience, o.grace, o.half = patience, 20*time.Millisecond, half
	return o
}
