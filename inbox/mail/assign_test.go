package mail

import (
	"fmt"
	"testing"
	"time"
)

func times(seconds ...int) (list []time.Time) {
	for _, s := range seconds {
		list = append(list, time.Unix(int64(s), 0))
	}
	return list
}

// Equal messages are given in their order: assign returns when each one was given, or 0 if that is not sure.
func TestAssign(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sent, given []time.Time
		want        []int64
	}{
		"one":                        {times(10), times(11), []int64{11}},
		"at the same time":           {times(10), times(10), []int64{10}},
		"before it was sent":         {times(10), times(9), []int64{0}},
		"not given":                  {times(10), nil, []int64{0}},
		"given twice":                {times(10), times(11, 12), []int64{11}},
		"two":                        {times(10, 20), times(11, 21), []int64{11, 21}},
		"two at once":                {times(10, 20), times(21, 21), []int64{21, 21}},
		"the first before the other": {times(10, 20), times(11), []int64{11, 0}},
		"one of them":                {times(10, 20), times(21), []int64{0, 0}},
		"the first twice":            {times(10, 20), times(11, 12), []int64{11, 0}},
		"the first twice, the other": {times(10, 20), times(11, 12, 25), []int64{11, 25}},
		"the first two of three":     {times(10, 20, 30), times(21, 22), []int64{21, 22, 0}},
		"two of three":               {times(10, 20, 30), times(21, 31), []int64{0, 0, 0}},
		"two, given thrice":          {times(10, 20), times(21, 22, 23), []int64{21, 22}},
	} {
		for k, want := range tc.want {
			var got int64
			if at := assign(tc.sent, tc.given, k); !at.IsZero() {
				got = at.Unix()
			}
			if got != want {
				t.Errorf("%s: message %d was given at %d, want %d", name, k, got, want)
			}
		}
	}
}

// A time that assign returns is true for every way to give messages in order, each once or not at all.
func TestAssignIsSure(t *testing.T) {
	t.Parallel()
	sent := times(10, 20, 30)
	var give func(k int, from int, given []time.Time, first []int64)
	give = func(k, from int, given []time.Time, first []int64) {
		if k == len(sent) {
			for i := range sent {
				if at := assign(sent, given, i); !at.IsZero() && at.Unix() != first[i] {
					t.Errorf("given %v: message %d at %d, in truth at %d", seconds(given), i, at.Unix(), first[i])
				}
			}
			return
		}
		give(k+1, from, given, append(first[:k:k], 0)) // not given
		for at := max(from, int(sent[k].Unix())); at <= 36; at += 5 {
			give(k+1, at, append(given[:len(given):len(given)], times(at)...), append(first[:k:k], int64(at)))
		}
	}
	give(0, 0, nil, nil)
}

func seconds(list []time.Time) string {
	var s []int64
	for _, t := range list {
		s = append(s, t.Unix())
	}
	return fmt.Sprint(s)
}
