package interactive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"teambridge/teams/atomicfile"
	"teambridge/teams/sharedfile"
)

// settings returns the file for --settings, given the value in the person's command; empty if no change is needed. An
// editor in the person's settings would take precedence over ours, so our settings then name ours.
func (l *Launch) settings(own string) (string, error) {
	merged := map[string]json.RawMessage{}
	if own != "" {
		data, err := []byte(own), error(nil)
		if !strings.HasPrefix(strings.TrimSpace(own), "{") {
			if data, err = readLimited(l.inDir(own)); err != nil {
				return "", fmt.Errorf("--settings: %w", err)
			}
		}
		if err := json.Unmarshal(data, &merged); err != nil || merged == nil {
			return "", fmt.Errorf("--settings %.60q is no JSON object: %w", own, err)
		}
	}
	l.named = l.editors(merged)
	if l.named == (editors{}) {
		return "", nil
	}
	env, err := object(merged["env"])
	if err != nil {
		return "", fmt.Errorf("--settings %.60q: env: %w", own, err)
	}
	ours, err := json.Marshal(l.editor())
	if err != nil {
		return "", err
	}
	env["VISUAL"], env["EDITOR"] = ours, ours
	if merged["env"], err = json.Marshal(env); err != nil {
		return "", err
	}
	data, err := json.Marshal(merged)
	if err != nil {
		return "", err
	}
	// A file, even if the person's value was an argument: settings can have keys, and any user can read arguments.
	path := filepath.Join(l.files, "settings.json")
	return path, atomicfile.Write(path, data)
}

// object decodes a JSON object. A missing object counts as empty.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if raw == nil {
		return members, nil
	}
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	if members == nil {
		return nil, errors.New("is null")
	}
	return members, nil
}

// editors are the editors that settings name.
type editors struct{ visual, editor string }

// editors returns the editors that the settings of the command, of the directory, or of the person name. They take
// precedence over the environment. Unreadable settings name none.
func (l *Launch) editors(command map[string]json.RawMessage) (found editors) {
	all := []map[string]json.RawMessage{command}
	for _, path := range []string{
		l.inDir(".claude", "settings.local.json"), l.inDir(".claude", "settings.json"), filepath.Join(l.root, "settings.json"),
	} {
		var settings map[string]json.RawMessage
		if data, err := readLimited(path); err == nil && json.Unmarshal(data, &settings) == nil {
			all = append(all, settings)
		}
	}
	for _, settings := range all {
		var env map[string]any
		if json.Unmarshal(settings["env"], &env) != nil {
			continue
		}
		for name, value := range map[string]*string{"VISUAL": &found.visual, "EDITOR": &found.editor} {
			if text, ok := env[name].(string); ok && *value == "" {
				*value = text
			}
		}
	}
	return found
}

func (l *Launch) inDir(path ...string) string {
	joined := filepath.Join(path...)
	if filepath.IsAbs(joined) {
		return joined
	}
	return filepath.Join(l.dir, joined)
}

// maxSettings is the maximum size of a settings file, or of a paste. Usual settings have some KB.
const maxSettings = 1 << 20

// readLimited reads a small regular file.
func readLimited(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("is no regular file")}
	case info.Size() > maxSettings:
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("is larger than %d MiB", maxSettings>>20)}
	}
	return sharedfile.ReadFile(path)
}
