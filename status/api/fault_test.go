package api

import (
	"errors"
	"fmt"
	"testing"
)

// A program tells errors apart by their code, whether they came from a service or not.
func TestCodesAreSentinels(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&Problem{Code: CodeConflict, Detail: "there is one already"},
		Decide(CodeConflict, "", "there is one already"),
	} {
		if wrapped := fmt.Errorf("add: %w", err); !errors.Is(wrapped, CodeConflict) || errors.Is(wrapped, CodeNotFound) {
			t.Errorf("%T is not exactly %s", err, CodeConflict)
		}
	}
}
