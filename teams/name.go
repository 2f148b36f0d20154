package teams

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"teambridge/teams/excerpt"
)

// MaxName is the maximum length of a name, in characters. The limit in bytes, 200, leaves room for Claude's
// ".json.tmp.<8 hex>" in the 255 bytes of a file name.
const MaxName = 64

const maxNameBytes = 200

// CheckName returns [ErrBadName] unless name can be the name of a team or member, and so a file name on any
// system. The name must not be empty, longer than [MaxName], or invalid UTF-8. It must not contain a path
// separator, "..", or a control character, begin with a dot, or end with a dot or a space. And it must not be
// a device name, or a path that is not local, on Windows. kind names the name in the error.
func CheckName(kind, name string) error {
	if why := badName(name); why != "" {
		return fmt.Errorf("teams: %s %q %s: %w", kind, excerpt.Bytes(name, maxNameBytes), why, ErrBadName)
	}
	return nil
}

// badName returns the fault of a name, or "".
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

// device reports whether a file of this name is a device on Windows. The rule holds on all systems, because
// another system can share a directory with Windows.
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

// Split splits an address at its last "@": "bob@myteam" is the member bob of the team myteam. If there is no
// "@", or one side is empty, the whole address is the member.
func Split(address string) (member, team string) {
	if i := strings.LastIndexByte(address, '@'); i > 0 && i < len(address)-1 {
		return address[:i], address[i+1:]
	}
	return address, ""
}

// MemberIn returns the name that an address has within a team: "bob@myteam" is bob in myteam. The address of
// a member of another team stays unchanged.
func MemberIn(address, team string) string { return strings.TrimSuffix(address, "@"+team) }
