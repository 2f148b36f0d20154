package interactive

import (
	"bytes"
	"fmt"

	"teambridge/teams/transcript"
)

// PermissionMode is the permission mode that the person left the session in, in Claude Code's words; empty if nobody used
// it at a terminal: that of the last message that was entered there, or of the permission-mode record after it. That record
// is written when the process ends, if the mode differs from the last one written.
//
// What is not known: a change by Shift-Tab without a message, if the process is killed; and that a process that was started
// without a mode of its own, in a session that was left in another one, was in the default.
func PermissionMode(root, dir, session string) (mode string, err error) {
	path, ok := transcript.Session(root, dir, session)
	if !ok {
		return "", nil
	}
	for line, err := range transcript.Lines(path, transcriptTail) {
		if err != nil {
			return "", fmt.Errorf("interactive: transcript: %w", err)
		}
		if !bytes.Contains(line, []byte(`"permissionMode"`)) {
			continue
		}
		r, _ := transcript.Parse(line)
		if r.PermissionMode != "" && (r.Type == "permission-mode" || r.Type == "user" && r.Entrypoint == "cli") {
			mode = r.PermissionMode
		}
	}
	return mode, nil
}
