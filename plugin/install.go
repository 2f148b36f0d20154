package plugin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"teambridge/teams/atomicfile"
	"teambridge/teams/lockedfile"
	"teambridge/teams/sharedfile"
)

// Installer installs the plugin for all sessions of the Claude Code that Command starts.
type Installer struct {
	Command []string // Claude Code
	Env     []string // what it needs in its environment to use Root, besides our own
	Root    string   // Claude Code's directory
	State   string   // ours
}

// ErrElsewhere means that Claude Code has a plugin of this name that we have not installed.
var ErrElsewhere = errors.New("the plugin teambridge of Claude Code comes from elsewhere")

// Status is what Claude Code has.
type Status struct {
	Version   string // of the plugin; "": none is installed
	Enabled   bool
	Program   string // that it runs
	Elsewhere string // where the marketplace is, if it is not ours

	listed bool // the marketplace
}

// commandTime is how long a command of Claude Code may take.
const commandTime = 2 * time.Minute

// Dir is the marketplace that we write. Each of Claude Code's directories has its own.
func (i *Installer) Dir() string {
	sum := sha256.Sum256([]byte(i.Root))
	return filepath.Join(i.State, "plugins", hex.EncodeToString(sum[:8]))
}

// cache is where Claude Code keeps copies of what is in our marketplace.
func (i *Installer) cache() string { return filepath.Join(i.Root, "plugins", "cache", name) }

// Status asks Claude Code what it has.
func (i *Installer) Status(ctx context.Context) (s Status, err error) {
	var markets []struct{ Name, Path, Repo, URL string }
	if err := i.list(ctx, &markets, "marketplace", "list"); err != nil {
		return s, err
	}
	for _, m := range markets {
		if m.Name == name {
			if s.listed = true; !sameFile(m.Path, i.Dir()) {
				s.Elsewhere = cmp.Or(m.Path, m.Repo, m.URL, "?")
			}
		}
	}
	var plugins []struct {
		ID, Version string
		Enabled     bool
		InstallPath string
	}
	if err := i.list(ctx, &plugins, "list"); err != nil {
		return s, err
	}
	for _, p := range plugins {
		if p.ID != ID {
			continue
		}
		s.Version, s.Enabled = cmp.Or(p.Version, "?"), p.Enabled
		s.Program = cmp.Or(i.Program(), programIn(p.InstallPath))
	}
	return s, nil
}

// Program is what the plugin runs that we have written for the directory; empty if there is none. Claude Code is not asked.
func (i *Installer) Program() string { return programIn(filepath.Join(i.Dir(), name)) }

// programIn is what the plugin in a folder runs.
func programIn(dir string) string {
	var servers struct {
		MCPServers map[string]struct{ Command string } `json:"mcpServers"`
	}
	if data, err := sharedfile.ReadFile(filepath.Join(dir, serversFile)); err != nil || json.Unmarshal(data, &servers) != nil {
		return ""
	}
	return servers.MCPServers[name].Command
}

// list reads the answer of "claude plugin ARGS --json".
func (i *Installer) list(ctx context.Context, into any, args ...string) error {
	out, err := i.claude(ctx, append(args, "--json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("claude plugin %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// claude runs "claude plugin ARGS", and returns what it prints.
func (i *Installer) claude(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	argv := slices.Concat(i.Command, []string{"plugin"}, args)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), i.Env...)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(said.String() + "\n" + string(out))
		return nil, fmt.Errorf("claude plugin %s: %w: %s", strings.Join(args, " "), err, text)
	}
	return out, nil
}

// Install installs the plugin that runs program with flags, and reports whether something changed.
func (i *Installer) Install(ctx context.Context, program string, flags []string) (now Status, changed bool, err error) {
	unlock, err := lockedfile.HoldWithin(ctx, time.Minute, filepath.Join(i.State, "locks"), "plugin of "+i.Root)
	if err != nil {
		return now, false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	was, err := i.Status(ctx)
	if err != nil {
		return now, false, err
	}
	if was.Elsewhere != "" {
		return was, false, fmt.Errorf("%w: %s", ErrElsewhere, was.Elsewhere)
	}
	all, version, err := content(program, flags)
	if err != nil {
		return now, false, err
	}
	if was.Version == version && was.Enabled && i.complete(all) {
		return was, false, nil
	}
	if was.Version == "" && !was.listed { // else an earlier call failed in between
		if err := i.remember(); err != nil {
			return now, false, err
		}
	}
	if err := write(i.Dir(), all); err != nil {
		return now, false, err
	}
	steps := [][]string{{"marketplace", "add", i.Dir()}, {"install", ID}}
	if was.Version != "" {
		steps = [][]string{{"marketplace", "add", i.Dir()}, {"marketplace", "update", name}, {"update", ID}}
		if !was.Enabled {
			steps = append(steps, []string{"enable", ID})
		}
	}
	for _, args := range steps {
		if _, err := i.claude(ctx, args...); err != nil {
			return now, true, err
		}
	}
	if now, err = i.Status(ctx); err == nil && (now.Version != version || !now.Enabled) {
		err = fmt.Errorf("claude plugin list has version %q (enabled: %t) after version %s was installed", now.Version, now.Enabled, version)
	}
	return now, true, err
}

// complete reports whether all files are where we have written them.
func (i *Installer) complete(all map[string][]byte) bool {
	for file, want := range all {
		if data, err := sharedfile.ReadFile(filepath.Join(i.Dir(), name, filepath.FromSlash(file))); err != nil || !bytes.Equal(data, want) {
			return false
		}
	}
	return true
}

// Uninstall removes the plugin and all that was made for it, and reports whether there was one.
func (i *Installer) Uninstall(ctx context.Context) (removed bool, err error) {
	unlock, err := lockedfile.HoldWithin(ctx, time.Minute, filepath.Join(i.State, "locks"), "plugin of "+i.Root)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	was, err := i.Status(ctx)
	if err != nil {
		return false, err
	}
	if was.Elsewhere != "" {
		return false, fmt.Errorf("%w: %s", ErrElsewhere, was.Elsewhere)
	}
	if was.Version != "" {
		if _, err := i.claude(ctx, "uninstall", ID); err != nil {
			return false, err
		}
	}
	if was.listed {
		if _, err := i.claude(ctx, "marketplace", "remove", name); err != nil {
			return false, err
		}
	}
	return was.listed || was.Version != "", errors.Join(
		os.RemoveAll(i.cache()), // Claude Code marks it as unused, and keeps it for a week
		i.restore(), os.RemoveAll(i.Dir()), i.enableOthers(ctx),
	)
}

// enableOthers turns the plugin of other directories on again whose settings are the same file, by a link: what says there that it
// is on has just gone.
func (i *Installer) enableOthers(ctx context.Context) error {
	all, err := filepath.Glob(filepath.Join(i.State, "plugins", "*.json"))
	if err != nil {
		return err
	}
	here, err := filepath.EvalSymlinks(filepath.Join(i.Root, kept[0]))
	if err != nil {
		return nil // there are no settings
	}
	var failed []error
	for _, path := range all {
		var was map[string]string
		data, err := sharedfile.ReadFile(path)
		if err != nil || json.Unmarshal(data, &was) != nil || was[rootKey] == "" || was[rootKey] == i.Root {
			continue
		}
		o := &Installer{Command: i.Command, Env: append(slices.Clone(i.Env), "CLAUDE_CONFIG_DIR="+was[rootKey]), Root: was[rootKey], State: i.State}
		if there, err := filepath.EvalSymlinks(filepath.Join(o.Root, kept[0])); err != nil || there != here {
			continue
		}
		_, err = o.claude(ctx, "marketplace", "add", o.Dir())
		if err == nil {
			var s Status
			if s, err = o.Status(ctx); err == nil && s.Version == "" {
				_, err = o.claude(ctx, "install", ID)
			} else if err == nil && !s.Enabled {
				_, err = o.claude(ctx, "enable", ID)
			}
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s has the same settings, and its plugin may be off now: %w", o.Root, err))
		}
	}
	return errors.Join(failed...)
}

// rootKey is where the record of an installation names the directory that it is in. No file of Claude Code is called so.
const rootKey = "in the directory"

// kept are the files of Claude Code that an installation changes, below its directory.
var kept = []string{"settings.json", "plugins/installed_plugins.json", "plugins/known_marketplaces.json"}

// inBase64 follows the name of a file that is no UTF-8.
const inBase64 = " in base64"

// before is the file in which we keep how they were.
func (i *Installer) before() string { return i.Dir() + ".json" }

// remember keeps the files as they are.
func (i *Installer) remember() error {
	if err := os.MkdirAll(filepath.Dir(i.before()), 0o700); err != nil {
		return err
	}
	was := map[string]string{rootKey: i.Root}
	for _, file := range kept {
		data, err := sharedfile.ReadFile(filepath.Join(i.Root, filepath.FromSlash(file)))
		if err == nil && utf8.Valid(data) {
			was[file] = string(data)
		} else if err == nil { // JSON would change it
			was[file+inBase64] = base64.StdEncoding.EncodeToString(data)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return atomicfile.Write(i.before(), encoded(was))
}

// restore puts back the files that say what they said before, which Claude Code leaves with other white space and empty objects.
func (i *Installer) restore() error {
	data, err := sharedfile.ReadFile(i.before())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var was map[string]string
	if err == nil {
		err = json.Unmarshal(data, &was)
	}
	if err != nil {
		return err
	}
	for _, file := range kept {
		if text, ok := was[file+inBase64]; ok {
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return fmt.Errorf("%s: %w", i.before(), err)
			}
			was[file] = string(data)
		}
		path := filepath.Join(i.Root, filepath.FromSlash(file))
		now, err := sharedfile.ReadFile(path)
		if err != nil {
			continue // nothing of it is left
		}
		before, existed := was[file]
		if string(now) == before || !alike(before, now) {
			continue
		}
		if !existed {
			err = os.Remove(path)
		} else if path, err = filepath.EvalSymlinks(path); err == nil { // a link stays one
			err = atomicfile.Write(path, []byte(before))
		}
		if err != nil {
			return err
		}
	}
	if err := os.Remove(i.before()); err != nil {
		return err
	}
	for _, dir := range []string{"plugins/cache", "plugins/data", "plugins/marketplaces", "plugins"} {
		_ = os.Remove(filepath.Join(i.Root, filepath.FromSlash(dir))) // fails if it is not empty
	}
	return nil
}

// alike reports whether two objects say the same, but for empty objects and a version that the first one does not have.
func alike(before string, now []byte) bool {
	var a, b map[string]any
	if before != "" && json.Unmarshal([]byte(before), &a) != nil || json.Unmarshal(now, &b) != nil {
		return false
	}
	for key, v := range b {
		object, ok := v.(map[string]any)
		if _, had := a[key]; !had && (ok && len(object) == 0 || key == "version") {
			delete(b, key)
		}
	}
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
