package acp

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"teambridge/relay/agent"
)

// program describes the properties of an agent that the protocol does not show. All entries were measured. An
// agent that is not in the table gets a mode only on request.
type program struct {
	name string
	// modes maps our permission modes to the agent's, from the narrowest to the widest. In the mode "default"
	// the agent asks before it changes anything or runs a command.
	modes []permissionMode
	// env returns variables to add to the agent's environment.
	env func(Options, string) ([]string, error)
	// afterMinute means that a session is lost if it is loaded within the minute of its creation.
	afterMinute bool
	// forgets means that a loaded session may lack a message that the agent took.
	forgets bool
	// finished proves, from the agent's own record, that the turn of a message has ended. It is nil if the
	// agent's record has no proof.
	finished func(o Options, session, message string) (answer string, ok bool)
}

type permissionMode struct{ ours, theirs string }

// programs returns the table of known agents.
func programs() []program {
	return []program{
		{name: "opencode", modes: []permissionMode{{"plan", "plan"}, {"default", "build"}, {"acceptEdits", "build"}, {"bypassPermissions", "build"}}, env: askOpenCode}, // its configuration decides when it asks
		{name: "gemini", modes: []permissionMode{{"plan", "plan"}, {"default", "default"}, {"acceptEdits", "autoEdit"}, {"bypassPermissions", "yolo"}}, env: keepGemini, afterMinute: true, forgets: true},
		{name: "qwen", modes: []permissionMode{{"plan", "plan"}, {"default", "default"}, {"acceptEdits", "auto-edit"}, {"bypassPermissions", "yolo"}}, finished: finishedQwen},
		{name: "codex", modes: []permissionMode{{"default", "read-only"}, {"acceptEdits", "auto"}, {"bypassPermissions", "full-access"}}, finished: finishedCodex},
		{name: "claude", modes: []permissionMode{{"plan", "plan"}, {"default", "default"}, {"acceptEdits", "acceptEdits"}, {"bypassPermissions", "bypassPermissions"}}, finished: finishedClaude},
	}
}

// programOf identifies a program by its command line, or by the name that it reports.
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
		// Compare only the names next to the script, because a directory of any name may hold any program. A
		// package's script is two or three levels below the package's name.
		parts := strings.Split(filepath.ToSlash(word), "/")
		if i := slices.Index(parts, "node_modules"); i >= 0 {
			parts = parts[i:]
		} else if !strings.HasPrefix(word, "@") { // @SCOPE/PACKAGE is an argument of npx
			parts = parts[len(parts)-1:]
		}
		if p, ok := known(path.Join(parts...)); ok {
			return p
		}
	}
	return program{}
}

// absent returns the state of a begun message that the program's replay lacks. The message is sent again only
// if the program cannot have taken it.
func (p program) absent() agent.Turn {
	if p.forgets {
		return agent.Turn{Stored: true, Failed: true, Failure: "it is unknown whether the agent has the message: " + p.name + " forgets messages; send it again if it is still needed"}
	}
	return agent.Turn{}
}

// own returns the program's name of a permission mode.
func (p program) own(ours string) (string, bool) {
	i := slices.IndexFunc(p.modes, func(m permissionMode) bool { return m.ours == ours })
	if i < 0 {
		return "", false
	}
	return p.modes[i].theirs, true
}

// find returns our name of one of the program's modes, or "", and the mode's rank by permissions. An unknown
// mode has the highest rank, since it may allow anything.
func (p program) find(theirs string) (ours string, width int) {
	i := slices.IndexFunc(p.modes, func(m permissionMode) bool { return m.theirs == theirs })
	if i < 0 {
		return "", len(p.modes)
	}
	return p.modes[i].ours, i
}
