package main

import "testing"

func TestFigures(t *testing.T) {
	t.Parallel()
	measured, err := parse("goos: linux\nBenchmarkStart-2   \t     100\t  67772324 ns/op\t        28.35 go-median-ms\t         1.349 x-go\nBenchmarkAppend/10000_with-2 5 3 ns/op 0.5 x\nPASS\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		figure        Figure
		value         float64
		worse, misses bool
	}{
		{"as it was", Figure{Of: "BenchmarkStart x-go", Value: new(1.349), Bar: 1.3}, 1.349, false, true},
		{"within a quarter", Figure{Of: "BenchmarkStart x-go", Value: new(1.08), Bar: 1.4}, 1.349, false, false},
		{"worse", Figure{Of: "BenchmarkStart x-go", Value: new(1.07)}, 1.349, true, false},
		{"worse, and tolerated", Figure{Of: "BenchmarkStart x-go", Value: new(0.7), Tolerance: 2}, 1.349, false, false},
		{"more is better", Figure{Of: "BenchmarkStart x-go", More: true, Value: new(1.7), Bar: 2}, 1.349, true, true},
		{"more is better, and within a quarter", Figure{Of: "BenchmarkStart x-go", More: true, Value: new(1.6)}, 1.349, false, false},
		{"a ratio", Figure{Of: "BenchmarkStart ns/op", Per: "BenchmarkAppend/10000_with x", Value: new(135544648.0)}, 135544648, false, false},
		{"was none", Figure{Of: "BenchmarkStart x-go", Value: new(0.0), Bar: 1}, 1.349, true, true},
		{"was not measured", Figure{Of: "BenchmarkStart x-go", Bar: 1}, 1.349, false, true},
	} {
		now, err := c.figure.in(measured)
		if err != nil || now != c.value || c.figure.worse(now) != c.worse || c.figure.misses(now) != c.misses {
			t.Errorf("%s: %v, worse %v, misses %v, %v", c.name, now, c.figure.worse(now), c.figure.misses(now), err)
		}
	}
	for _, f := range []Figure{{Of: "BenchmarkNone x"}, {Of: "BenchmarkStart x-go", Per: "BenchmarkNone x"}} {
		if _, err := f.in(measured); err == nil {
			t.Errorf("%+v: no error", f)
		}
	}
}
