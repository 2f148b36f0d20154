package teams

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"teambridge/teams/excerpt"
)

// MaxName is the maximum length of a name, in characters. In bytes it is 200, which leaves
// room for Claude's ".json.tmp.<8 hex>" in the 255 bytes of a file name.
const MaxName = 64

const maxNameBytes = 200

// CheckName returns [ErrBadName] unless name can be the name of a team or member, which is a
// file name on any system. It must not be empty, longer than [MaxName], or not UTF-8; hold a
// path separator, "..", or a control character; begin with a dot, or end with a dot or a
// space; or be a device name or no local path on Windows. kind is for the error.
func CheckName(kind, name string) error {
	if why := badName(name); why != "" {
		return fmt.Errorf("teams: %s %q %s: %w", kind, excerpt.Bytes(name, maxNameBytes), why, ErrBadName)
	}
	return nil
}

// badName returns what is wrong with name, or "".
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

// device reports whether a file of this name is a device on Windows. Other systems can share
// a directory with one.
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

// Split takes an address apart at its last "@": "bob@myteam" is the member bob of the team
// myteam. Without "@", or with nothing on one side of it, all of it is the member.
func Split(address string) (member, team string) {
	if i := strings.LastIndexByte(address, '@'); i > 0 && i < len(address)-1 {
		return address[:i], address[i+1:]
	}
	return address, ""
}

// MemberIn returns the name that an address has in a team: "bob@myteam" is bob there. That of somebody in another team
// stays an address.
func MemberIn(address, team string) string { return strings.TrimSuffix(address, "@"+team) }
