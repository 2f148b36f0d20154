package standin

import (
	"fmt"
	"path/filepath"
	"testing"

	"teambridge/relay/relaytest/model"
)

// installedFor returns the first file in the interop directory that matches a pattern, or skips or fails the test as Require does.
func installedFor(t testing.TB, program string, pattern ...string) string {
	t.Helper()
	dir, err := interop()
	if err != nil {
		missing(t, fmt.Errorf("use %s: %w; %s", program, err, howToInstall))
	}
	found, err := filepath.Glob(filepath.Join(append([]string{dir}, pattern...)...))
	if err != nil || len(found) == 0 {
		missing(t, fmt.Errorf("%s is not installed: no %s is in %s; %s", program, filepath.Join(pattern...), dir, howToInstall))
	}
	return found[0]
}

// CodexACP makes the home one for Codex, too, and returns the command of its agent of the Agent Client Protocol.
func (h *Home) CodexACP(t testing.TB) []string {
	t.Helper()
	program := installedFor(t, "codex-acp", "codex-acp", "node_modules", "@zed-industries", "codex-acp-*", "bin", "codex-acp*")
	h.forCodex(t)
	return []string{program}
}

// GeminiACP makes the home one for Gemini CLI, too, and returns the command that is its agent of the Agent Client Protocol.
func (h *Home) GeminiACP(t testing.TB) []string {
	t.Helper()
	node := installedFor(t, "the Node.js of Gemini CLI", "node", "node_modules", "node-*", "bin", "node")
	program := installedFor(t, "Gemini CLI", "gemini", "node_modules", "@google", "gemini-cli", "bundle", "gemini.js")
	h.writeSettings(t, ".gemini", object{
		"security": object{"auth": object{"selectedType": "gemini-api-key"}, "folderTrust": object{"enabled": false}}, "telemetry": object{"enabled": false},
		"general": object{"disableAutoUpdate": true, "enableAutoUpdate": false}, "privacy": object{"usageStatisticsEnabled": false},
		"model": object{"name": "gemini-2.5-flash"},
	})
	h.Extra = append(h.Extra, "GEMINI_API_KEY="+model.Key, "GOOGLE_GEMINI_BASE_URL="+h.API.URL, "GEMINI_CLI_NO_RELAUNCH=1", "NO_PROXY=127.0.0.1", "NODE_NO_WARNINGS=1")
	return []string{node, program, "--acp"}
}

// ClaudeACP returns the command of the agent of the Agent Client Protocol that has a Claude Code of its own.
func (h *Home) ClaudeACP(t testing.TB) []string {
	t.Helper()
	node := installedFor(t, "Node.js", "node", "node_modules", "node-*", "bin", "node")
	return []string{node, installedFor(t, "claude-agent-acp", "claude-acp", "node_modules", "@agentclientprotocol", "claude-agent-acp", "dist", "index.js")}
}
