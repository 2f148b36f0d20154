// Command figures measures what testdata/figures.json lists, and judges it:
//
//	figures [-counts] [-update] [FIGURE...]
//
// It runs the benchmarks of this module that the file names, from the top of the module, and compares each figure with the
// value that was measured last. It fails if one is more than a quarter worse, or worse than the file tolerates: what the
// slowest messages take, for one, differs by half between two runs of one program. Most figures are ratios of two that were
// measured in turn, so that the machine matters little. -counts takes those alone that depend on no clock, which .ci/run
// holds, and -update writes what was measured into the file, with its commit. With arguments, it takes the figures whose text
// has one of them.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const path = "testdata/figures.json"

// tolerance is how many times worse a figure may be than it was, unless it says otherwise.
const tolerance = 1.25

// Figures is the file.
type Figures struct {
	Commit     string      `json:"commit"` // that was measured last
	Date       string      `json:"date"`
	Machine    string      `json:"machine"`
	Benchmarks []Benchmark `json:"benchmarks"`
}

// Benchmark is one run of go test.
type Benchmark struct {
	Package string   `json:"package"`
	Bench   string   `json:"bench"` // for -bench
	Time    string   `json:"time"`  // for -benchtime
	Counts  bool     `json:"counts,omitempty"`
	Figures []Figure `json:"figures"`
}

// Figure is what a benchmark reports, or how many times as much that is as something else it reports.
type Figure struct {
	What      string   `json:"what"`
	Of        string   `json:"of"`                  // "BenchmarkAppend/100 x-copy": a benchmark, and what it reports
	Per       string   `json:"per,omitempty"`       // the same
	More      bool     `json:"more,omitempty"`      // more is better
	Value     *float64 `json:"value"`               // as it was measured last; null: it was not
	Bar       float64  `json:"bar,omitempty"`       // what it has to be
	Tolerance float64  `json:"tolerance,omitempty"` // how many times worse it may be than it was; 1.25 if 0
}

func main() {
	counts := flag.Bool("counts", false, "only figures that depend on no clock")
	update := flag.Bool("update", false, "write what was measured into "+path)
	flag.Parse()
	ok, err := run(os.Stdout, *counts, *update, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(w io.Writer, counts, update bool, names []string) (ok bool, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	var file Figures
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	worse := 0
	fmt.Fprintf(w, "%10s %10s %10s  %s\n", "last", "now", "bar", "figure")
	for i, b := range file.Benchmarks {
		if counts && !b.Counts || !b.has(names) {
			continue
		}
		measured, err := measure(b)
		if err != nil {
			return false, err
		}
		for k, f := range b.Figures {
			now, err := f.in(measured)
			if err != nil {
				return false, err
			}
			verdict := ""
			if f.worse(now) {
				verdict = "  WORSE"
				worse++
			} else if f.misses(now) {
				verdict = "  misses the bar"
			}
			fmt.Fprintf(w, "%10s %10s %10s  %s%s\n", number(f.last()), number(now), number(f.Bar), f.What, verdict)
			file.Benchmarks[i].Figures[k].Value = &now
		}
	}
	if worse > 0 && !update {
		return false, fmt.Errorf("%d figures are worse by more than is tolerated than at commit %s of %s; what came since:\n  git log %s..HEAD",
			worse, file.Commit, file.Date, file.Commit)
	}
	if !update {
		return true, nil
	}
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return false, err
	}
	file.Commit, file.Date = strings.TrimSpace(string(commit)), time.Now().Format(time.DateOnly)
	if data, err = json.MarshalIndent(file, "", "\t"); err != nil {
		return false, err
	}
	return true, os.WriteFile(path, append(data, '\n'), 0o644)
}

func (b Benchmark) has(names []string) bool {
	for _, name := range names {
		for _, f := range b.Figures {
			if strings.Contains(f.What, name) {
				return true
			}
		}
	}
	return len(names) == 0
}

// measure runs a benchmark and returns what each of its parts reports, by its name and unit.
func measure(b Benchmark) (map[string]float64, error) {
	cmd := exec.Command("go", "test", "-vet=off", "-run", "^$", "-bench", b.Bench, "-benchtime", b.Time, "-timeout", "30m", b.Package)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return parse(string(out))
}

var processors = regexp.MustCompile(`-\d+$`)

// parse reads what benchmarks report: a name, how many rounds, and then numbers with their units.
func parse(out string) (map[string]float64, error) {
	measured := map[string]float64{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := processors.ReplaceAllString(fields[0], "")
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q is no line of a benchmark: %w", line, err)
			}
			measured[name+" "+fields[i+1]] = value
		}
	}
	return measured, nil
}

// in returns a figure from what was measured.
func (f Figure) in(measured map[string]float64) (float64, error) {
	value, ok := measured[f.Of]
	if !ok {
		return 0, fmt.Errorf("%s: no benchmark reports %q", f.What, f.Of)
	}
	if f.Per == "" {
		return value, nil
	}
	per, ok := measured[f.Per]
	if !ok || per == 0 {
		return 0, fmt.Errorf("%s: no benchmark reports %q", f.What, f.Per)
	}
	return value / per, nil
}

// last returns the value that was measured last; 0 if there is none.
func (f Figure) last() float64 {
	if f.Value == nil {
		return 0
	}
	return *f.Value
}

// worse reports whether a figure is worse than it was, by more than is tolerated. One that was 0, such as a number of lost messages,
// is worse once it is over its bar.
func (f Figure) worse(now float64) bool {
	times := cmp.Or(f.Tolerance, tolerance)
	switch {
	case f.Value == nil:
		return false
	case f.More:
		return now < *f.Value/times
	case *f.Value == 0:
		return now > f.Bar
	}
	return now > *f.Value*times
}

// misses reports whether a figure is not what it has to be.
func (f Figure) misses(now float64) bool {
	return f.Bar != 0 && (f.More && now < f.Bar || !f.More && now > f.Bar)
}

// number is a figure with three digits, or as a whole number.
func number(f float64) string {
	switch {
	case f == 0:
		return "-"
	case f >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}
