package setup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/relay/shell"
)

// commandTime is how long a command of a program may take.
const commandTime = 2 * time.Minute

// configFile is the file of a program that names its MCP servers.
func configFile(program string) string {
	if program == Qwen {
		return settingsFile
	}
	return "config.toml"
}

// adding are the arguments of a program that add an MCP server, but for the command.
func adding(program string) []string {
	if program == Qwen {
		return []string{"add", "--scope", "user", "teambridge"}
	}
	return []string{"add", "teambridge", "--"}
}

// removing are the arguments of a program that remove it.
func removing(program string) []string {
	if program == Qwen {
		return []string{"remove", "--scope", "user", "teambridge"}
	}
	return []string{"remove", "teambridge"}
}

// entry is an MCP server, as "codex mcp list --json" prints it.
type entry struct {
	Name      string
	Enabled   bool
	Transport struct {
		URL     string
		Command string
		Args    []string
	}
}

// runs is what an entry runs.
func (e *entry) runs() []string {
	return append([]string{cmp.Or(e.Transport.Command, e.Transport.URL)}, e.Transport.Args...)
}

// quoted is a command as a shell reads it.
func quoted(command []string) string {
	var words []string
	for _, w := range command {
		words = append(words, shell.Quote(w))
	}
	return strings.Join(words, " ")
}

// command is what a program is to run. It does not have the environment of sessions of Claude Code, which have their own directory.
func (s *Setup) command() []string {
	command := append([]string{s.Program, "mcp"}, s.Flags...)
	if s.Named {
		command = append(command, "--claude-dir", s.Root)
	}
	return command
}

// mcp runs the command "mcp" of a program, and returns what it prints.
func (s *Setup) mcp(ctx context.Context, st *Step, args ...string) ([]byte, error) {
	return s.runs(ctx, st, append([]string{"mcp"}, args...)...)
}

// runs runs the program of a step in its directory, and returns what it prints.
func (s *Setup) runs(ctx context.Context, st *Step, args ...string) ([]byte, error) {
	dir := ""
	if _, err := os.Stat(st.Target); err == nil {
		dir = st.Target // a project can have servers of its own
	}
	return runIn(ctx, dir, st, nil, args...)
}

// runIn runs the program of a step, and returns what it prints.
func runIn(ctx context.Context, dir string, st *Step, env []string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, st.Path, args...)
	cmd.Dir, cmd.Env = dir, slices.Concat(os.Environ(), []string{"RUST_BACKTRACE=0"}, env)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		text := said.String() + "\n" + string(out)
		if i := strings.LastIndex(text, "Error: "); i >= 0 {
			text = text[i+len("Error: "):] // warnings come before it
		}
		return nil, fmt.Errorf("%s %s: %w: %s", st.Program, strings.Join(args, " "), err, strings.TrimSpace(text))
	}
	return out, nil
}

// entry returns our entry in a program; nil if there is none.
func (s *Setup) entry(ctx context.Context, st *Step) (*entry, error) {
	if st.Program == Qwen { // its command starts the servers
		return s.qwenEntry()
	}
	out, err := s.mcp(ctx, st, "list", "--json")
	if err != nil {
		return nil, err
	}
	var all []*entry
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("codex mcp list --json: %w", err)
	}
	if i := slices.IndexFunc(all, func(e *entry) bool { return e.Name == "teambridge" }); i >= 0 {
		return all[i], nil
	}
	return nil, nil
}

// qwenEntry is entry for Qwen Code.
func (s *Setup) qwenEntry() (*entry, error) {
	path := filepath.Join(s.Qwen, settingsFile)
	data, err := readIfAny(path)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return nil, err
	}
	var settings struct {
		Servers map[string]struct {
			URL, HTTPURL, Command string
			Args                  []string
		} `json:"mcpServers"`
		MCP struct{ Excluded []string }
	}
	if err := json.Unmarshal(data, &settings); err != nil {
		return nil, fmt.Errorf("%s: %w; nothing was changed: add the tools by hand with qwen mcp add, if the file has comments", path, err)
	}
	found, ok := settings.Servers["teambridge"]
	if !ok {
		return nil, nil
	}
	e := &entry{Name: "teambridge", Enabled: !slices.Contains(settings.MCP.Excluded, "teambridge")}
	e.Transport.URL, e.Transport.Command, e.Transport.Args = cmp.Or(found.URL, found.HTTPURL), found.Command, found.Args
	return e, nil
}

func (s *Setup) lookTools(ctx context.Context, st *Step) error {
	if st.Target == "" {
		return fmt.Errorf("the directory of %s is not known: set $HOME or $%s_HOME to an absolute path", title(st.Program), strings.ToUpper(st.Program))
	}
	e, err := s.entry(ctx, st)
	if err != nil {
		return err
	}
	name := title(st.Program)
	switch {
	case e == nil:
		st.State, st.Detail = Missing, name+" has no MCP server called teambridge"
		st.Plan = "add the tools: " + st.Program + " mcp " + quoted(append(adding(st.Program), s.command()...))
		if st.Program == Qwen {
			st.Plan += "; its sessions then take messages without asking you"
		}
	case !slices.Equal(e.runs(), s.command()):
		st.State, st.Detail = Other, fmt.Sprintf("the MCP server teambridge of %s runs %s; to have it replaced, remove it with %s mcp remove teambridge, and try again", name, quoted(e.runs()), st.Program)
	case !e.Enabled:
		st.State, st.Detail = Other, fmt.Sprintf("the MCP server teambridge of %s is disabled; enable it in %s", name, filepath.Join(st.Target, configFile(st.Program)))
	default:
		st.State, st.Detail = Done, name+" has the tools, and runs "+s.Program
	}
	return nil
}

// config is the file that names the MCP servers of the program of a step.
func (st *Step) config() string { return filepath.Join(st.Target, configFile(st.Program)) }

func (s *Setup) addTools(ctx context.Context, st *Step) error {
	before, err := readIfAny(st.config())
	if err != nil {
		return err
	}
	e, err := s.entry(ctx, st)
	if err != nil || e != nil { // it was added since we looked
		return err
	}
	if err := s.begun(st, s.command(), false, st.config()); err != nil {
		return err
	}
	_, failed := s.mcp(ctx, st, append(adding(st.Program), s.command()...)...)
	now, err := readIfAny(st.config())
	switch st.Changed = !same(now, before); {
	case failed != nil && err == nil && !st.Changed:
		return errors.Join(failed, s.ended(st))
	case failed != nil || err != nil:
		return errors.Join(failed, err)
	case st.Changed:
		return s.left(st)
	}
	// It may be in another file, in place of a link to this one.
	if e, err = s.entry(ctx, st); err != nil {
		return err
	}
	if st.Changed = e != nil; !st.Changed {
		return s.ended(st)
	}
	return nil
}

func (s *Setup) removeTools(ctx context.Context, st *Step) error {
	all, err := s.records()
	if err != nil {
		return err
	}
	r := all.find(st)
	if r == nil {
		return nil
	}
	if st.Changed, err = s.restored(all, *r); err != nil {
		return err
	}
	if !st.Changed {
		if err := s.needs(st); err != nil {
			return err
		}
		e, err := s.entry(ctx, st)
		if err != nil {
			return err
		}
		if e != nil && slices.Equal(e.runs(), r.Command) { // else somebody has replaced it
			if _, err := s.mcp(ctx, st, removing(st.Program)...); err != nil {
				return err
			}
			st.Changed = true
		}
	}
	return s.ended(st)
}
