package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// Each error gets its code and exit status, even those that only the command line has.
func TestExplain(t *testing.T) {
	t.Parallel()
	interrupted, cancel := context.WithCancel(context.Background())
	cancel()
	canceled := fmt.Errorf("send: %w", context.Canceled)
	for _, c := range []struct {
		ctx  context.Context
		err  error
		code string
		exit int
	}{
		{context.Background(), usage("h", "wrong"), "usage", 2},
		{context.Background(), notFound("h", "nothing"), "not_found", 3},
		{context.Background(), refuse("h", "no"), "refused", 5},
		{context.Background(), errors.New("anything"), "error", 1},
		{interrupted, canceled, "interrupted", 130},
		{context.Background(), canceled, "error", 1},
		{context.Background(), exitStatus(1), "", 1},
	} {
		if f, status := explain(c.ctx, c.err); string(f.Code) != c.code || status != c.exit {
			t.Errorf("%v: %+v, %d, want %s, %d", c.err, f, status, c.code, c.exit)
		}
	}
}
