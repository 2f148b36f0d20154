package claude

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// NobodyAsked returns the path of the settings that make Claude Code deny instead of asking for permission, or
// the flag; empty if there are none. With permissions.denyInsteadOfPrompting, every use that the rules leave
// open is denied, and even --permission-prompt-tool is not asked. The setting works in the user's settings (in
// the directory root), in --settings of the command, and in managed settings, but not in the settings of a
// project. Managed settings outside files are not checked.
func NobodyAsked(root, dir string, command []string) string {
	return nobodyAsked(root, dir, command, managedSettings)
}

func nobodyAsked(root, dir string, command []string, managed string) string {
	drops, _ := filepath.Glob(filepath.Join(managed, "managed-settings.d", "*.json")) // the pattern is valid
	for _, path := range slices.Concat([]string{filepath.Join(root, "settings.json"), filepath.Join(managed, "managed-settings.json")}, drops) {
		if data, err := os.ReadFile(path); err == nil && deniesPrompts(data) {
			return path
		}
	}
	_, args := split(command)
	value, _ := args.value("--settings")
	if strings.HasPrefix(strings.TrimSpace(value), "{") {
		if deniesPrompts([]byte(value)) {
			return "--settings"
		}
	} else if value != "" {
		if !filepath.IsAbs(value) {
			value = filepath.Join(dir, value)
		}
		if data, err := os.ReadFile(value); err == nil && deniesPrompts(data) {
			return value
		}
	}
	return ""
}

func deniesPrompts(settings []byte) bool {
	var s struct {
		Permissions struct {
			DenyInsteadOfPrompting bool `json:"denyInsteadOfPrompting"`
		} `json:"permissions"`
	}
	_ = json.Unmarshal(settings, &s) // unreadable settings set nothing
	return s.Permissions.DenyInsteadOfPrompting
}
