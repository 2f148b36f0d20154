package acp

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"teambridge/relay/process"
	"teambridge/teams/atomicfile"
)

// askOpenCode makes OpenCode ask before it changes something or runs a command; its mode "build" does not
// ask. OpenCode reads this configuration after the files of the user and the project, so these cannot widen
// it.
func askOpenCode(o Options, permission string) ([]string, error) {
	const name = "OPENCODE_CONFIG_CONTENT"
	config := map[string]any{}
	if own, ok := process.Lookup(o.env(), name); ok && own != "" {
		if err := json.Unmarshal([]byte(own), &config); err != nil {
			return nil, fmt.Errorf("acp: $%s: %w", name, err)
		}
	}
	rules := map[string]string{"bash": "ask", "edit": "ask", "webfetch": "ask", "external_directory": "ask"}
	switch permission {
	case "bypassPermissions":
		return nil, nil
	case "acceptEdits":
		rules["edit"] = "allow"
	}
	config["permission"] = rules
	data, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("acp: %w", err)
	}
	return []string{name + "=" + string(data)}, nil
}

// keepGemini stops Gemini from deleting a session. Whenever Gemini loads a session, it leaves a second, empty
// file with the same id, and at its next start it removes all files with that id.
func keepGemini(o Options, _ string) ([]string, error) {
	const name = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
	if _, ok := process.Lookup(o.env(), name); ok {
		return nil, nil // the administrator's settings take precedence
	}
	path := filepath.Join(o.State, "acp", "gemini.json")
	if err := atomicfile.Write(path, []byte(`{"general": {"sessionRetention": {"enabled": false}}}`+"\n")); err != nil {
		return nil, fmt.Errorf("acp: %w", err)
	}
	return []string{name + "=" + path}, nil
}
