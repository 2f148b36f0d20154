// Package errtest ends a test that cannot go on.
package errtest

import "errors"

// Must ends the test if there is an error. t is a test, a benchmark, or a check of package rapid.
func Must(t interface {
	Helper()
	Fatal(...any)
}, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
