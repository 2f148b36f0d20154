package interactive

import (
	"bytes"
	"fmt"

	"teambridge/teams/transcript"
)

// PermissionMode returns the permission mode in which the person left the session, in Claude Code's words; empty if
// the session was not used at a terminal. It is the mode of the last message that was entered there, or of a later
// permission-mode record, which the process writes when it ends, if the mode differs from the last one written.
//
// Two facts are not known: a change by Shift-Tab without a message, if the process is killed; and the default mode of
// a process that was started without a mode, if the session was left in another mode before.
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
