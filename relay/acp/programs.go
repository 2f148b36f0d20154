package acp

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"teambridge/relay/agent"
)

// program is what is known of an agent beyond the protocol. All of it was measured; of an agent that is not in the table
// nothing is known, and no mode is set that it was not asked to have.
type program struct {
	name string
	// modes are its own names of the permission modes, from the narrowest to the widest, with ours. In the mode "default" it
	// asks before it changes anything or runs a command.
	modes []permissionMode
	// env is added to its environment.
	env func(Options, string) ([]string, error)
	// afterMinute says that a session that is loaded in the minute of its making is lost.
	afterMinute bool
	// forgets says that it may have taken a message that it does not show when its session is loaded.
	forgets bool
	// finished proves from the agent's own record that the turn of a message came to its end; nil: nothing proves it.
	finished func(o Options, session, message string) (answer string, ok bool)
}

type permissionMode struct{ ours, theirs string }

// programs returns the table.
func programs() []program {
	return []program{
		{name: "opencode", modes: []permissionMode{{"plan", "plan"}, {"default", "build"}, {"acceptEdits", "build"}, {"bypassPermissions", "build"}}, env: askOpenCode}, // what it asks for is in its configuration,
		{name: "gemini", modes: []permissionMode{{"plan", "plan"}, {"default", "default"}, {"acceptEdits", "autoEdit"}, {"bypassPermissions", "yolo"}}, env: keepGemini, afterMinute: true, forgets: true},
		{name: "qwen", modes: []permissionMode{{"plan", "plan"}, {"default", "default"}, {"acceptEdits", "auto-edit"}, {"bypassPermissions", "yolo"}}, finished: finishedQwen},
		{name: "codex", modes: []permissionMode{{"default", "read-only"}, {"acceptEdits", "auto"}, {"bypassPermissions", "full-access"}}, finished: finishedCodex},
		{name: "claude", modes: []permissionMode{{"plan", "plan"}, {"default", "default"}, {"acceptEdits", "acceptEdits"}, {"bypassPermissions", "bypassPermissions"}}, finished: finishedClaude},
	}
}

// programOf finds a program by its command line, or by the name that it gives itself.
func programOf(command []string, name string) program {
	known := func(text string) (program, bool) {
		for _, p := range programs() {
			if strings.Contains(strings.ToLower(text), p.name) {
				return p, true
			}
		}
		return program{}, false
	}
	if p, ok := known(name); ok {
		return p
	}
	for _, word := range command {
		// A folder of any name may hold any program: the script of a package is two or three below its name.
		parts := strings.Split(filepath.ToSlash(word), "/")
		if i := slices.Index(parts, "node_modules"); i >= 0 {
			parts = parts[i:]
		} else if !strings.HasPrefix(word, "@") { // @SCOPE/PACKAGE, which npx gets
			parts = parts[len(parts)-1:]
		}
		if p, ok := known(path.Join(parts...)); ok {
			return p
		}
	}
	return program{}
}

// absent is the turn of a message that was begun, and that the program does not show. It is given again only if the program
// cannot have taken it.
func (p program) absent() agent.Turn {
	if p.forgets {
		return agent.Turn{Stored: true, Failed: true, Failure: "nobody knows whether the agent has taken it: " + p.name + " forgets messages; send it again if it is still needed"}
	}
	return agent.Turn{}
}

// own is the program's name of a permission mode.
func (p program) own(ours string) (string, bool) {
	i := slices.IndexFunc(p.modes, func(m permissionMode) bool { return m.ours == ours })
	if i < 0 {
		return "", false
	}
	return p.modes[i].theirs, true
}

// find returns our name of a mode of the program, empty if it has none, and how much the mode allows beside the others. One that
// is not known may allow anything.
func (p program) find(theirs string) (ours string, width int) {
	i := slices.IndexFunc(p.modes, func(m permissionMode) bool { return m.theirs == theirs })
	if i < 0 {
		return "", len(p.modes)
	}
	return p.modes[i].ours, i
}
