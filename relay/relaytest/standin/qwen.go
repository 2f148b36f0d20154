package standin

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"teambridge/relay/relaytest/model"
)

// RequireQwen returns the command of Qwen Code, which needs a newer Node.js than that of the system, or skips or
// fails the test as Require does.
func RequireQwen(t testing.TB) []string {
	t.Helper()
	return []string{
		installedFor(t, "the Node.js of Qwen Code", "node", "node_modules", "node-*", "bin", "node"),
		installedFor(t, "Qwen Code", "qwen", "node_modules", "@qwen-code", "qwen-code", "cli-entry.js"),
	}
}

// Qwen makes the home one for Qwen Code, too, and returns its command. settings are added to its settings.
func (h *Home) Qwen(t testing.TB, settings map[string]any) []string {
	t.Helper()
	command := RequireQwen(t)
	all := object{
		"security": object{"auth": object{"selectedType": "openai"}, "folderTrust": object{"enabled": false}}, "telemetry": object{"enabled": false},
		"general": object{"disableAutoUpdate": true, "enableAutoUpdate": false}, "privacy": object{"usageStatisticsEnabled": false},
		"ui": object{"enableFollowupSuggestions": false, "enableWelcomeBack": false}, "memory": object{"enableManagedAutoMemory": false},
	}
	for name, value := range settings {
		all[name] = value
	}
	h.writeSettings(t, ".qwen", all)
	h.Extra = append(h.Extra, "OPENAI_API_KEY="+model.Key, "OPENAI_BASE_URL="+h.API.URL+"/v1", "OPENAI_MODEL=standin", "NO_PROXY=127.0.0.1", "NODE_NO_WARNINGS=1")
	return command
}

// writeSettings writes the settings.json of a directory of the home.
func (h *Home) writeSettings(t testing.TB, name string, settings object) {
	t.Helper()
	data, err := json.Marshal(settings)
	dir := filepath.Join(h.Dir, name)
	if err = errors.Join(err, os.Mkdir(dir, 0o700)); err == nil {
		err = os.WriteFile(filepath.Join(dir, "settings.json"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// StartQwen starts a command of [Home.Qwen] with args, and returns when a prompt can be typed.
func StartQwen(t testing.TB, h *Home, command []string, args ...string) *PromptTerminal {
	t.Helper()
	return startPromptTerminal(t, h, "> ", "Type your message", append(command[:len(command):len(command)], args...))
}
