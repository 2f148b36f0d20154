package standin

import (
	"fmt"
	"path/filepath"
	"testing"
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

// ClaudeACP returns the command of the agent of the Agent Client Protocol that has a Claude Code of its own.
func (h *Home) ClaudeACP(t testing.TB) []string {
	t.Helper()
	node := installedFor(t, "Node.js", "node", "node_modules", "node-*", "bin", "node")
	return []string{node, installedFor(t, "claude-agent-acp", "claude-acp", "node_modules", "@agentclientprotocol", "claude-agent-acp", "dist", "index.js")}
}
