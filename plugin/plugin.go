// Package plugin holds the plugin of teambridge for Claude Code, and writes it for "teambridge setup" to install.
//
// The folder teambridge is the plugin as others install it from the repository: it runs the teambridge that
// is in $PATH. What [Write] writes runs one program, by its absolute path.
package plugin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"teambridge/relay/stophook"
	"teambridge/teams/rawjson"
	"teambridge/teams/sharedfile"
)

//go:embed all:teambridge
var files embed.FS

// Name is the name of the plugin and of its marketplace, and ID that of both.
const (
	Name = "teambridge"
	ID   = stophook.Plugin
)

// The files that depend on the program.
const (
	hooksFile    = "hooks/hooks.json"
	serversFile  = ".mcp.json"
	manifestFile = ".claude-plugin/plugin.json"
)

// Content returns the files of the plugin that runs program with flags, and its version, which is another one if they differ.
func Content(program string, flags []string) (all map[string][]byte, version string, err error) {
	all = map[string][]byte{}
	if err := fs.WalkDir(files, Name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all[strings.TrimPrefix(path, Name+"/")], err = files.ReadFile(path)
		return err
	}); err != nil {
		return nil, "", err
	}
	all[hooksFile] = encoded(stophook.InPlugin(program, flags...))
	all[serversFile] = encoded(map[string]any{"mcpServers": map[string]any{
		Name: map[string]any{"command": program, "args": append([]string{"mcp"}, flags...)},
	}})
	var manifest map[string]any
	if err := json.Unmarshal(all[manifestFile], &manifest); err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(encoded(all)) // the keys of a map are encoded in order
	version = "0.0.0-" + hex.EncodeToString(sum[:6])
	manifest["version"] = version
	all[manifestFile] = encoded(manifest)
	return all, version, nil
}

// Dir is the marketplace that is written for one of Claude Code's directories, in our state directory.
func Dir(state, root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(state, "plugins", hex.EncodeToString(sum[:8]))
}

// Program is what the plugin runs that was written for one of Claude Code's directories; empty if there is none. Claude Code is not asked.
func Program(state, root string) string { return ProgramIn(filepath.Join(Dir(state, root), Name)) }

// ProgramIn is what the plugin in a folder runs.
func ProgramIn(dir string) string {
	var servers struct {
		MCPServers map[string]struct{ Command string } `json:"mcpServers"`
	}
	if data, err := sharedfile.ReadFile(filepath.Join(dir, serversFile)); err != nil || json.Unmarshal(data, &servers) != nil {
		return ""
	}
	return servers.MCPServers[Name].Command
}

// Complete reports whether all files of the plugin are in a marketplace as [Write] has written them.
func Complete(dir string, all map[string][]byte) bool {
	for file, want := range all {
		if data, err := sharedfile.ReadFile(filepath.Join(dir, Name, filepath.FromSlash(file))); err != nil || !bytes.Equal(data, want) {
			return false
		}
	}
	return true
}

// encoded is v as the text of a file.
func encoded(v any) []byte {
	var buf bytes.Buffer
	data, err := rawjson.Encode(v)
	if err == nil {
		err = json.Indent(&buf, append(data, '\n'), "", "  ")
	}
	if err != nil {
		panic(err) // of a value that this package has made
	}
	return buf.Bytes()
}

// Write writes a marketplace with a plugin in place of the one at dir.
func Write(dir string, all map[string][]byte) error {
	fresh, err := os.MkdirTemp(filepath.Dir(dir), ".plugin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) // nothing, unless it failed
	put := func(file string, data []byte) error {
		to := filepath.Join(fresh, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o600)
	}
	for file, data := range all {
		if err := put(path.Join(Name, file), data); err != nil {
			return err
		}
	}
	if err := put(".claude-plugin/marketplace.json", encoded(map[string]any{
		"name": Name, "description": "The plugin of the teambridge on this machine.", "owner": map[string]string{"name": Name},
		"plugins": []map[string]string{{"name": Name, "source": "./" + Name}},
	})); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}
