// Package plugin holds the plugin of teambridge for Claude Code, and installs it with Claude Code's own commands.
//
// The folder teambridge is the plugin as others install it from the repository: it runs the teambridge that
// is in $PATH. What [Installer.Install] installs runs one program, by its absolute path.
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
)

//go:embed all:teambridge
var files embed.FS

// name is the name of the plugin and of its marketplace, and ID that of both.
const (
	name = "teambridge"
	ID   = stophook.Plugin
)

// The files that depend on the program.
const (
	hooksFile    = "hooks/hooks.json"
	serversFile  = ".mcp.json"
	manifestFile = ".claude-plugin/plugin.json"
)

// content returns the files of the plugin that runs program with flags, and its version, which is another one if they differ.
func content(program string, flags []string) (all map[string][]byte, version string, err error) {
	all = map[string][]byte{}
	if err := fs.WalkDir(files, name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all[strings.TrimPrefix(path, name+"/")], err = files.ReadFile(path)
		return err
	}); err != nil {
		return nil, "", err
	}
	if all[hooksFile], err = stophook.InPlugin(program, flags...); err != nil {
		return nil, "", err
	}
	all[serversFile] = encoded(map[string]any{"mcpServers": map[string]any{
		name: map[string]any{"command": program, "args": append([]string{"mcp"}, flags...)},
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

// Version returns the version of the plugin that runs program with flags, as [Installer.Install] installs it.
func Version(program string, flags []string) (string, error) {
	_, version, err := content(program, flags)
	return version, err
}

// encoded is v as the text of a file.
func encoded(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		panic(err) // of a value that this package has made
	}
	return buf.Bytes()
}

// write writes a marketplace with a plugin in place of the one at dir.
func write(dir string, all map[string][]byte) error {
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
		if err := put(path.Join(name, file), data); err != nil {
			return err
		}
	}
	if err := put(".claude-plugin/marketplace.json", encoded(map[string]any{
		"name": name, "description": "The plugin of the teambridge on this machine.", "owner": map[string]string{"name": name},
		"plugins": []map[string]string{{"name": name, "source": "./" + name}},
	})); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}
