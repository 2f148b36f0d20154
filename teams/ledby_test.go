package teams

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"teambridge/teams/transcript"
)

// From files that real processes had written before they ended or were killed follows which of them leads which team,
// or that this is unknown. No team gets the leader of another one.
func TestLeadersOfCapturedTeams(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/leaders/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		must(t, err)
		p := newPlace(t)
		for _, f := range archive.Files {
			p.write(f.Name, string(f.Data))
		}
		_, said, _ := strings.Cut(string(archive.Comment), "\nboot ")
		boot, said, _ := strings.Cut(said, "\n")
		booted, err := strconv.ParseInt(boot, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		l := p.leads(time.UnixMilli(booted))
		for line := range strings.Lines(said) {
			words := strings.Fields(line)
			want, err := strconv.Atoi(words[1])
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			c, err := p.root.config(words[0])
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			found := false
			for _, q := range l.candidates(c) {
				found = found || q.PID == want
			}
			if len(words) == 3 && !found {
				t.Errorf("%s: %d cannot lead %s", file, want, c.Team)
			}
			if len(words) == 3 {
				want = 0
			}
			if got, ok := l.leader(c); got.PID != want || ok != (want != 0) {
				t.Errorf("%s: %d leads %s, want %d", file, got.PID, c.Team, want)
			}
		}
	}
}

// leads returns the leads of a machine that was started at boot.
func (p *place) leads(boot time.Time) *leads {
	return &leads{root: p.root, processes: transcript.Processes(p.dir), began: func(q transcript.Process) (time.Time, bool) { return after(boot, q) }}
}

// A ledCase is a team at start and the processes that may lead it.
type ledCase struct {
	team      string   // keys of its config.json
	teams     []string // the other teams
	processes []string // keys of their files
	want      int      // the one that leads
	may       int      // how many processes may lead it
}

// The times show which process made a team, and leave the rest unknown.
func TestLeaderByTimes(t *testing.T) {
	t.Parallel()
	const (
		mine    = `"leadSessionId":"random","createdAt":100900`
		resumed = `"sessionId":"s","version":"2.1.300","kind":"interactive","cwd":"/w","procStart":"50","startedAt":101000`
	)
	with := func(keys string, changes ...string) string { return strings.NewReplacer(changes...).Replace(keys) }
	boot := time.UnixMilli(100000) // so the process began at 100.5 s
	for name, tc := range map[string]ledCase{
		"resumed":                         {team: mine, processes: []string{resumed}, want: 1, may: 1},
		"a minute at the trust dialog":    {team: mine, processes: []string{with(resumed, "101000", "161000")}, want: 1, may: 1},
		"made before the process began":   {team: with(mine, "100900", "98000"), processes: []string{resumed}},
		"that, and the clock was set":     {team: with(mine, "100900", "99000"), processes: []string{resumed}, want: 1, may: 1},
		"made after its file was written": {team: with(mine, "100900", "101001"), processes: []string{resumed}},
		"of another boot":                 {team: with(mine, "100900", "60000"), processes: []string{with(resumed, `"50"`, `"5000"`)}, want: 1, may: 1},
		"of another boot, and long ago":   {team: with(mine, "100900", "40000"), processes: []string{with(resumed, `"50"`, `"5000"`)}},
		"no start":                        {team: mine, processes: []string{with(resumed, `"50"`, `""`)}, want: 1, may: 1},
		"headless":                        {team: mine, processes: []string{with(resumed, `"interactive"`, `"headless"`)}},
		"would be named":                  {team: mine, processes: []string{with(resumed, "2.1.300", "2.1.311")}},
		"too old to say its version":      {team: mine, processes: []string{with(resumed, "2.1.300", "")}},
		"in a worktree":                   {team: mine, processes: []string{with(resumed, "/w", "/w/tree")}, want: 1, may: 1},
		"one in another directory": {
			team: mine, processes: []string{with(resumed, "/w", "/v"), with(resumed, `"s"`, `"r"`)}, want: 2, may: 2},
		"two in the directory": {
			team: mine, processes: []string{resumed, with(resumed, `"s"`, `"r"`)}, may: 2},
		"the other has a team of its own": {
			team: mine, processes: []string{with(resumed, `"s"`, `"r"`), resumed}, teams: []string{with(mine, "random", "r")}, want: 2, may: 1},
		"the process may have made another": {
			team: mine, processes: []string{resumed}, teams: []string{with(mine, "100900", "100800")}, may: 1},
		"another was made in another directory": {
			team: mine, processes: []string{resumed}, teams: []string{with(mine, "100900", `100800,"cwd":"/v"`)}, want: 1, may: 1},
		"another was made, and is named": {
			team: mine, processes: []string{resumed}, teams: []string{mine + `,"leadProcess":{"pid":7}`}, want: 1, may: 1},
		"not resumed": {
			team: with(mine, "random", "s"), processes: []string{resumed, with(resumed, `"s"`, `"r"`)}, want: 1, may: 2},
		"killed, and its session resumed": {
			team: with(mine, "random", "s", "100900", "50000"), processes: []string{resumed}},
		"killed, and its session resumed, both there": {
			team: with(mine, "random", "s"), processes: []string{resumed, with(resumed, "101000", "300000", `"50"`, `"19800"`)}, want: 1, may: 1},
	} {
		p := newPlace(t)
		for i, team := range append([]string{tc.team}, tc.teams...) {
			cwd := "/w"
			if at := strings.Index(team, `"cwd":`); at >= 0 {
				cwd = "/v"
			}
			p.write(fmt.Sprintf("teams/t%d/config.json", i), fmt.Sprintf(`{"leadAgentId":"l","members":[{"agentId":"l","name":"team-lead","tmuxPaneId":"leader","cwd":%q}],%s}`, cwd, team))
		}
		for i, process := range tc.processes {
			p.write(fmt.Sprintf("sessions/%d.json", i+1), fmt.Sprintf(`{"pid":%d,%s}`, i+1, process))
		}
		c, err := p.root.config("t0")
		must(t, err)
		l := p.leads(boot)
		got, ok := l.leader(c)
		if may := len(l.candidates(c)); got.PID != tc.want || ok != (tc.want != 0) || may != tc.may {
			t.Errorf("%s: %d leads it, of %d that may; want %d of %d", name, got.PID, may, tc.want, tc.may)
		}
	}
}
