package teams

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams/proc"
)

// self returns this process as a lead, which is alive.
func self(t *testing.T) LeadProcess {
	t.Helper()
	space, err := pidSpace()
	must(t, err)
	now, err := proc.Read(os.Getpid())
	must(t, err)
	return LeadProcess{PID: os.Getpid(), PidSpace: space, ProcStart: now.Start}
}

func TestLiveness(t *testing.T) {
	t.Parallel()
	me := self(t)
	_, inode, ok := strings.Cut(me.PidSpace, "#")
	if !ok || !strings.HasPrefix(inode, "pid:[") {
		t.Errorf("pid space %q is not spelled as Claude does", me.PidSpace)
	}
	for name, tc := range map[string]struct {
		change func(*LeadProcess)
		want   Liveness
	}{
		"as it is":                   {func(*LeadProcess) {}, Alive},
		"pid used again":             {func(p *LeadProcess) { p.ProcStart += "1" }, Gone},
		"no start time":              {func(p *LeadProcess) { p.ProcStart = "" }, Unknown},
		"another namespace":          {func(p *LeadProcess) { p.PidSpace = strings.Replace(p.PidSpace, "pid:[", "pid:[1", 1) }, Unknown},
		"another host":               {func(p *LeadProcess) { p.PidSpace = "other-" + p.PidSpace }, Unknown},
		"no namespace":               {func(p *LeadProcess) { p.PidSpace = "" }, Unknown},
		"no pid":                     {func(p *LeadProcess) { p.PID = 0 }, Unknown},
		"a pid that no process has":  {func(p *LeadProcess) { p.PID = 1<<31 - 1 }, Gone},
		"that, in another namespace": {func(p *LeadProcess) { p.PID = 1<<31 - 1; p.PidSpace = "x" }, Unknown},
	} {
		p := me
		tc.change(&p)
		if got := p.Liveness(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if got := (*LeadProcess)(nil).Liveness(); got != Unknown {
		t.Errorf("no lead process: %v, want unknown", got)
	}
}

// A lead that has exited is gone even before its parent has waited for it, and even if its name looks like the end of
// the name field.
func TestLivenessOfAChild(t *testing.T) {
	t.Parallel()
	me := self(t)
	script := t.TempDir() + "/x) Z 1 (y"
	must(t, os.Symlink("/bin/cat", script))
	cmd := exec.Command(script)
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	now, err := proc.Read(cmd.Process.Pid)
	must(t, err)
	p := LeadProcess{PID: cmd.Process.Pid, PidSpace: me.PidSpace, ProcStart: now.Start}
	if got := p.Liveness(); got != Alive {
		t.Errorf("running: %v, want alive", got)
	}
	stdin.Close()
	awaitExit(t, p.PID)
	if got := p.Liveness(); got != Gone {
		t.Errorf("zombie: %v, want gone", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got := p.Liveness(); got != Gone {
		t.Errorf("reaped: %v, want gone", got)
	}
}

// awaitExit waits until the child has ended, without reaping it.
func awaitExit(t *testing.T, pid int) {
	t.Helper()
	const pPID, wExited, wNoWait = 1, 4, 0x01000000
	var info [128]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		if errno == 0 {
			return
		}
		if errno != syscall.EINTR {
			t.Fatal(errno)
		}
	}
}

// A named pipe is not opened: opening it could wait forever for a writer.
func TestNoPipeIsOpened(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("teams/t/config.json", "{}")
	p.mkdir("teams/u")
	for _, name := range []string{"teams/pipe", "teams/t/inboxes", "teams/u/config.json", "pipe"} {
		must(t, syscall.Mkfifo(p.path(name), 0o600))
	}
	if _, err := Open(p.path("pipe")); err == nil {
		t.Error("Open took a pipe")
	}
	if _, err := p.root.Team("pipe"); !errors.Is(err, ErrNotDir) {
		t.Errorf("Team: %v, want ErrNotDir", err)
	}
	if _, err := p.team("t").InboxDir(true); !errors.Is(err, ErrNotDir) {
		t.Errorf("InboxDir: %v, want ErrNotDir", err)
	}
	if _, err := p.team("u").Config(t.Context()); err == nil {
		t.Error("Config took a pipe")
	}
	if all, err := p.root.Teams(); err != nil || len(all) != 2 {
		t.Errorf("Teams() = %v, %v, want t and u", all, err)
	}
}

// lead writes a team with a lead in that state that runs in cwd.
func (p *place) lead(name string, state Liveness, cwd string) {
	p.t.Helper()
	process := ""
	if state != Unknown {
		me := self(p.t)
		if state == Gone {
			me.ProcStart = "1"
		}
		process = fmt.Sprintf(`"leadProcess":{"pid":%d,"pidSpace":%q,"procStart":%q},`, me.PID, me.PidSpace, me.ProcStart)
	}
	p.write("teams/"+name+"/config.json",
		fmt.Sprintf(`{"name":%q,"leadAgentId":"l@t",%s"members":[{"name":"w","cwd":"/w"},{"name":"l","agentId":"l@t","cwd":%q}]}`, name, process, cwd))
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		make func(*place)
		want string   // the team, or
		list []string // the candidates, or
		dead []string // the names of dead ones
	}{
		"nothing there": {make: func(p *place) {}},
		"the only one":  {make: func(p *place) { p.lead("a", Alive, "/x") }, want: "a"},
		"the only one, without leadProcess": {
			make: func(p *place) { p.lead("a", Unknown, "/x") }, want: "a"},
		"the only live one": {
			make: func(p *place) { p.lead("a", Gone, p.dir); p.lead("b", Alive, "/x"); p.mkdir("teams/orphan") }, want: "b"},
		"the one here": {
			make: func(p *place) { p.lead("a", Alive, "/x"); p.lead("b", Unknown, p.dir); p.lead("c", Gone, p.dir) }, want: "b"},
		"the one here, by a link": {
			make: func(p *place) {
				link := p.t.TempDir() + "/link"
				must(p.t, os.Symlink(p.dir, link))
				p.lead("a", Alive, "/x")
				p.lead("b", Alive, link)
			}, want: "b"},
		"none here": {
			make: func(p *place) { p.lead("a", Alive, "/x"); p.lead("b", Unknown, ""); p.lead("c", Gone, "/x") }, list: []string{"a", "b"}},
		"two here": {
			make: func(p *place) { p.lead("a", Alive, p.dir); p.lead("b", Alive, p.dir); p.lead("c", Alive, "/x") }, list: []string{"a", "b", "c"}},
		"only dead ones": {
			make: func(p *place) { p.lead("a", Gone, p.dir); p.mkdir("teams/orphan") }, dead: []string{"a"}},
		"a corrupt one is not overlooked": {
			make: func(p *place) { p.lead("a", Alive, "/x"); p.write("teams/b/config.json", "{") }, list: []string{"a", "b"}},
		"a link is": {
			make: func(p *place) { p.lead("a", Alive, "/x"); p.symlink("a", "teams/b") }, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			tc.make(p)
			team, err := p.root.Choose(t.Context(), p.dir)
			if team != nil {
				defer team.Close()
			}
			switch {
			case tc.want != "":
				if err != nil || team.Name() != tc.want {
					t.Errorf("got %v, %v, want %s", team, err, tc.want)
				}
			case tc.list != nil:
				var got []string
				at, ok := errors.AsType[*AmbiguousTeamError](err)
				if ok {
					for _, c := range at.Teams {
						got = append(got, c.Name)
					}
				}
				if diff := cmp.Diff(tc.list, got); diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			default:
				nf, ok := errors.AsType[*NotFoundError](err)
				if !ok {
					t.Fatalf("got %v, %v, want a NotFoundError", team, err)
				}
				if diff := cmp.Diff(tc.dead, nf.Nearest); diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			}
		})
	}
}

func TestReach(t *testing.T) {
	t.Parallel()
	alive := self(t)
	dead := alive
	dead.ProcStart = "1"
	crew := []Member{
		{Name: "lead", AgentType: "team-lead"},
		{Name: "worker", BackendType: "in-process"},
		{Name: "operator", AgentID: "operator@t"},
	}
	for _, tc := range []struct {
		lead  *LeadProcess
		name  string
		facts Facts
		want  Deliverability
	}{
		{&alive, "worker", Facts{}, Reachable},
		{&alive, "worker", Facts{Agent: Gone}, AgentGone},
		{&alive, "worker", Facts{Agent: Gone, Relayed: true}, Reachable},
		{&alive, "left", Facts{}, NotMember},
		{&alive, "user", Facts{}, NotMember},
		{&alive, "lead", Facts{Headless: true}, NoRelay},
		{&alive, "lead", Facts{Headless: true, Relayed: true}, Reachable},
		{&dead, "worker", Facts{}, LeadGone},
		{&dead, "worker", Facts{Relayed: true}, Reachable},
		{&dead, "worker", Facts{Relayed: true, AtTerminal: true}, AtTerminal},
		{&dead, "left", Facts{}, NotMember},
		{&dead, "lead", Facts{Headless: true}, NoRelay},
		{&dead, "operator", Facts{}, Reachable},
		{nil, "worker", Facts{}, Reachable},
		{nil, "user", Facts{}, NotMember},
		{nil, "left", Facts{}, NotMember},
		{nil, "lead", Facts{Headless: true}, NoRelay},
	} {
		c := &Config{LeadProcess: tc.lead, Members: crew}
		if got := c.Deliverability(tc.name, tc.facts); got != tc.want {
			t.Errorf("%s of a team whose lead is %v, %+v: %s, want %s", tc.name, tc.lead.Liveness(), tc.facts, got, tc.want)
		}
	}
}
