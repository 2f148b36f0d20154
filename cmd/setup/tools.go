package setup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/relay/shell"
)

// toolsStep adds the tools to Codex or Qwen Code.
type toolsStep struct{ *Setup }

// commandTime limits a program's command.
const commandTime = 2 * time.Minute

// agents are the programs that get the tools by their own commands.
var agents = map[string]struct {
	title, config string   // config is the file that names the MCP servers
	add, remove   []string // arguments; the command of the server follows
}{
	Codex: {"Codex", "config.toml", []string{"mcp", "add", "teambridge", "--"}, []string{"mcp", "remove", "teambridge"}},
	Qwen:  {"Qwen Code", settingsFile, []string{"mcp", "add", "--scope", "user", "teambridge"}, []string{"mcp", "remove", "--scope", "user", "teambridge"}},
}

// config returns the file with the MCP servers of a step's program.
func (st *Step) config() string { return filepath.Join(st.Target, agents[st.Program].config) }

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

// runs returns the command of an entry.
func (e *entry) runs() []string {
	return append([]string{cmp.Or(e.Transport.Command, e.Transport.URL)}, e.Transport.Args...)
}

// quoted formats a command for a shell.
func quoted(command []string) string {
	var words []string
	for _, w := range command {
		words = append(words, shell.Quote(w))
	}
	return strings.Join(words, " ")
}

// command returns the command of the MCP server. The server does not get the environment of Claude Code's
// sessions, so the command names a Claude directory that is not the default.
func (s *Setup) command() []string {
	command := append([]string{s.Program, "mcp"}, s.Flags...)
	if s.Named {
		command = append(command, "--claude-dir", s.Root)
	}
	return command
}

// run runs a step's program in the step's directory, and returns its output.
func (s *Setup) run(ctx context.Context, st *Step, args ...string) ([]byte, error) {
	if st.Path == "" {
		return nil, fmt.Errorf("%s is not in $PATH, and is needed to undo this: install it, and try again", st.Program)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, st.Path, args...)
	cmd.Env = append(os.Environ(), "RUST_BACKTRACE=0")
	if st.Program == Claude && (s.Named || st.Target != s.Root) {
		cmd.Env = append(cmd.Env, "CLAUDE_CONFIG_DIR="+st.Target)
	}
	if _, err := os.Stat(st.Target); err == nil {
		cmd.Dir = st.Target // a project can have its own settings
	}
	cmd.WaitDelay = 10 * time.Second // a starved process reads the output late
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

// entry returns our entry in a program, or nil if there is none.
func (s toolsStep) entry(ctx context.Context, st *Step) (*entry, error) {
	if st.Program == Qwen { // its own command would start the servers
		return s.qwenEntry()
	}
	out, err := s.run(ctx, st, "mcp", "list", "--json")
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

// qwenEntry returns our entry in Qwen Code.
func (s toolsStep) qwenEntry() (*entry, error) {
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

func (s toolsStep) look(ctx context.Context, st *Step) error {
	agent := agents[st.Program]
	if st.Target == "" {
		return fmt.Errorf("the directory of %s is not known: set $HOME or $%s_HOME to an absolute path", agent.title, strings.ToUpper(st.Program))
	}
	e, err := s.entry(ctx, st)
	if err != nil {
		return err
	}
	switch {
	case e == nil:
		st.State, st.Detail = Missing, agent.title+" has no MCP server called teambridge"
		st.Plan = "add the tools: " + st.Program + " " + quoted(slices.Concat(agent.add, s.command()))
		if st.Program == Qwen {
			st.Plan += "; its sessions then take messages without asking you"
		}
	case !slices.Equal(e.runs(), s.command()):
		st.State, st.Detail = Other, fmt.Sprintf("the MCP server teambridge of %s runs %s; to have it replaced, remove it with %s mcp remove teambridge, and try again", agent.title, quoted(e.runs()), st.Program)
	case !e.Enabled:
		st.State, st.Detail = Other, fmt.Sprintf("the MCP server teambridge of %s is disabled; enable it in %s", agent.title, st.config())
	default:
		st.State, st.Detail = Done, agent.title+" has the tools, and runs "+s.Program
	}
	return nil
}

func (s toolsStep) do(ctx context.Context, st *Step) error {
	if e, err := s.entry(ctx, st); err != nil || e != nil { // it was added after the check
		return err
	}
	st.Changed = true
	return s.ran(st, s.command(), func() error {
		_, err := s.run(ctx, st, slices.Concat(agents[st.Program].add, s.command())...)
		return err
	}, st.config())
}

func (s toolsStep) undo(ctx context.Context, st *Step) error {
	return s.take(st, st.config(), func(file string, old []byte, r record) ([]byte, error) {
		e, err := s.entry(ctx, st)
		if err == nil && e != nil && slices.Equal(e.runs(), r.Command) { // otherwise another program has replaced it
			_, err = s.run(ctx, st, agents[st.Program].remove...)
		}
		if err != nil {
			return nil, err
		}
		return readIfAny(file)
	})
}
