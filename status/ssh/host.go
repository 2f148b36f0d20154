package ssh

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"teambridge/relay/shell"
	"teambridge/status/api"
)

// Host is a machine, and the place of the service on it.
type Host struct {
	Name   string // a name, an address, or an alias in ~/.ssh/config
	User   string // "": ssh decides
	Port   string // "": ssh decides
	Socket string // absolute path of the service's socket on it; "": found by the service's card
}

// Parse parses ssh://[USER@]HOST[:PORT][/SOCKET]. The error is [api.CodeUsage].
func Parse(text string) (h Host, err error) {
	invalid := func(format string, args ...any) (Host, error) {
		return Host{}, api.Decide(api.CodeUsage, "as in: ssh://box, ssh://alice@box:2222, ssh://box/run/teambridge.sock", "invalid host: "+format, args...)
	}
	u, err := url.Parse(text)
	if err != nil { // err could show a password
		return invalid("it is not a URL")
	}
	if _, secret := u.User.Password(); secret {
		return invalid("it has a password; ssh takes none there")
	}
	h = Host{Name: u.Hostname(), User: u.User.Username(), Port: u.Port(), Socket: strings.TrimSuffix(u.Path, "/")}
	switch port, perr := strconv.Atoi(h.Port); {
	case u.Scheme != "ssh" || u.Opaque != "":
		return invalid("%q does not begin with ssh://", text)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return invalid("%q has a query or a fragment", text)
	case h.Name == "":
		return invalid("%q names no machine", text)
	case h.Port != "" && (perr != nil || port < 1 || port > 65535):
		return invalid("%q has an invalid port", text)
	case u.User != nil && h.User == "":
		return invalid("%q names no user before @", text)
	}
	for _, part := range []string{h.Name, h.User} {
		// Refuse special characters: ssh can pass both to a shell, for ProxyCommand.
		if strings.HasPrefix(part, "-") || strings.ContainsAny(part, "'`\"$\\;&<>|(){}@/") || strings.ContainsFunc(part, notPlain) {
			return invalid("%q cannot be the name of a machine or a user", part)
		}
	}
	if strings.ContainsFunc(h.Socket, unicode.IsControl) {
		return invalid("the path %q has a control character", h.Socket)
	}
	return h, nil
}

func notPlain(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
}

// String returns the URL of the machine.
func (h Host) String() string {
	u := url.URL{Scheme: "ssh", Host: h.Name, Path: h.Socket}
	if strings.Contains(h.Name, ":") {
		u.Host = "[" + h.Name + "]"
	}
	if h.Port != "" {
		u.Host += ":" + h.Port
	}
	if h.User != "" {
		u.User = url.User(h.User)
	}
	return u.String()
}

// Line returns the command line with which a person runs a command on the machine. With terminal, the command gets a
// terminal.
func (h Host) Line(command string, terminal bool) string {
	words := []string{"ssh"}
	if terminal {
		words = append(words, "-t")
	}
	if h.Port != "" {
		words = append(words, "-p", h.Port)
	}
	to := h.Name
	if h.User != "" {
		to = h.User + "@" + h.Name
	}
	return strings.Join(append(words, shell.Quote(to), command), " ")
}

// path extends $PATH: non-interactive shells often lack these directories.
const path = `PATH="$PATH:$HOME/.local/bin:$HOME/go/bin:/usr/local/bin:/opt/homebrew/bin"; `

// command returns the remote command, which connects its input and output to the service.
func (h Host) command(program string) string {
	run := path + "exec " + shell.Quote(program) + " dial-stdio"
	if h.Socket != "" {
		run += " -- " + shell.Quote(h.Socket)
	}
	return "sh -c " + shell.Quote(run)
}

// args returns the arguments of ssh. With batch, ssh does not prompt.
func (h Host) args(program string, batch bool) []string {
	// The forwardings that the user has configured for the machine belong to sessions: two of them
	// for one port fail. The interval is for a link that is cut before HTTP/2 begins, and for sshd.
	args := []string{"-T", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "ClearAllForwardings=yes"}
	if batch {
		args = append(args, "-o", "BatchMode=yes")
	}
	if h.User != "" {
		args = append(args, "-l", h.User)
	}
	if h.Port != "" {
		args = append(args, "-p", h.Port)
	}
	return append(args, "--", h.Name, h.command(program))
}
