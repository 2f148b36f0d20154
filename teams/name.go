package teams

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is how long a name may be, in characters. In bytes it may have 200,
// so that Claude's own additions (".json.tmp.<8 hex>") stay within the 255
// bytes that file systems allow.
const MaxName = 64

const maxNameBytes = 200

// CheckName says whether name can stand for a team or a member: it becomes a
// file name, on any system. Refused, with [ErrBadName], are names that are
// empty, longer than [MaxName] or not UTF-8, that hold a path separator of any
// system, "..", or a control character, that begin with a dot or end with a dot
// or a space, the device names of Windows (with any ending) and, on Windows,
// whatever else is no local path there. kind ("team", "member") is for the error.
func CheckName(kind, name string) error {
	if why := badName(name); why != "" {
		shown := name
		if len(shown) > maxNameBytes {
			shown = strings.ToValidUTF8(shown[:maxNameBytes], "") + "…"
		}
		return fmt.Errorf("teams: %s %q %s: %w", kind, shown, why, ErrBadName)
	}
	return nil
}

// badName says what is wrong with name, or nothing.
func badName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxNameBytes || utf8.RuneCountInString(name) > MaxName:
		return fmt.Sprintf("is longer than %d characters", MaxName)
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.ContainsAny(name, `/\`):
		return "holds a path separator"
	case strings.Contains(name, ".."):
		return `holds ".."`
	case strings.ContainsFunc(name, unicode.IsControl):
		return "holds a control character"
	case name[0] == '.':
		return "begins with a dot"
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return "ends with a dot or a space"
	case device(name) || !filepath.IsLocal(name):
		return "cannot be a file name on Windows"
	}
	return ""
}

// device reports whether Windows takes a file of this name for a device. That
// is asked on every system: a directory may be shared.
func device(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	for _, port := range []string{"COM", "LPT"} {
		if n, ok := strings.CutPrefix(base, port); ok && utf8.RuneCountInString(n) == 1 {
			return strings.ContainsAny(n, "0123456789¹²³")
		}
	}
	return false
}

// Split takes an address apart at its last "@": "bob@myteam" is the member bob
// of the team myteam. Without "@", or with nothing on one side of it, all of it
// is the member.
func Split(address string) (member, team string) {
	if i := strings.LastIndexByte(address, '@'); i > 0 && i < len(address)-1 {
		return address[:i], address[i+1:]
	}
	return address, ""
}
