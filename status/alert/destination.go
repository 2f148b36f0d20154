package alert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The kinds of a [Destination].
const (
	Ntfy     = "ntfy"
	Slack    = "slack"
	Telegram = "telegram"
	Webhook  = "webhook"
)

// Kinds lists the kinds of destinations.
var Kinds = []string{Ntfy, Slack, Telegram, Webhook}

// Destination is where alerts are sent. Its address is a secret, which is in a file or in a variable
// of the environment; a Destination only says where.
type Destination struct {
	Kind     string
	File     string // absolute; empty: Variable has it
	Variable string
}

// Parse parses KIND=FILE or KIND=env:VARIABLE. It reads neither.
func Parse(spec string) (d Destination, err error) {
	kind, source, found := strings.Cut(spec, "=")
	if !found || !slices.Contains(Kinds, kind) {
		// The rest may be the address, so it is not repeated.
		return d, fmt.Errorf("an alert is one of %s, then =FILE or =env:VARIABLE, with the address there", strings.Join(Kinds, ", "))
	}
	d.Kind = kind
	if name, ok := strings.CutPrefix(source, "env:"); ok {
		if d.Variable = name; name == "" || strings.ContainsAny(name, "= \x00") {
			return d, fmt.Errorf("%s=env: needs the name of a variable", kind)
		}
		return d, nil
	}
	if source == "" || strings.Contains(source, "://") {
		return d, fmt.Errorf("%s= needs the name of a file that has the address: on the command line, others could read it", kind)
	}
	d.File, err = filepath.Abs(source)
	return d, err
}

func (d Destination) String() string { return d.Kind + " (" + d.source() + ")" }

func (d Destination) source() string {
	if d.Variable != "" {
		return "$" + d.Variable
	}
	return d.File
}

// Check reports what is wrong with the address.
func (d Destination) Check(lookup func(string) (string, bool)) error {
	_, err := d.load(lookup)
	return err
}

// address is what a destination says. Nothing of it may be in an error or a log.
type address struct {
	url   string // that is asked
	topic string // of ntfy
	chat  string // of Telegram
	token string // of ntfy and of a webhook, as a bearer token

	secrets []string // to be removed from what servers say
}

// maxAddress is how long the file may be, in bytes.
const maxAddress = 4 << 10

// load reads the address. The errors do not repeat what they are about.
func (d Destination) load(lookup func(string) (string, bool)) (a address, err error) {
	wrong := func(format string, args ...any) (address, error) {
		return address{}, fmt.Errorf("%s: %s", d, fmt.Sprintf(format, args...))
	}
	var text string
	if d.Variable != "" {
		if text, _ = lookup(d.Variable); text == "" {
			return wrong("the variable is not set")
		}
	} else if text, err = readPrivate(d.File); err != nil {
		return wrong("%v", err)
	}
	fields := strings.Fields(text)
	limits := map[string]int{Ntfy: 2, Slack: 1, Telegram: 3, Webhook: 2}
	if len(fields) == 0 || len(fields) > limits[d.Kind] {
		return wrong("it should have %s", forms[d.Kind])
	}
	if d.Kind == Telegram {
		a, err = telegram(fields)
	} else {
		a, err = web(d.Kind, fields)
	}
	if err != nil {
		return wrong("%v; it should have %s", err, forms[d.Kind])
	}
	return a, nil
}

// forms says what the file or the variable has.
var forms = map[string]string{
	Ntfy:     "https://HOST/TOPIC and, if the server wants one, an access token",
	Slack:    "the https:// address of an incoming webhook",
	Telegram: "the token of a bot, the id of a chat and, for a server of your own, its https:// address",
	Webhook:  "an https:// address and, if the server wants one, a bearer token",
}

// web parses an address and a token.
func web(kind string, fields []string) (a address, err error) {
	u, err := parseURL(fields[0])
	if err != nil {
		return a, err
	}
	a.url = u.String()
	a.secrets = append(strings.Split(u.Path, "/"), a.url, u.RequestURI())
	for _, values := range u.Query() {
		a.secrets = append(a.secrets, values...)
	}
	if len(fields) > 1 {
		if a.token = fields[1]; strings.ContainsFunc(a.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return a, errors.New("the token has characters that no token has")
		}
		a.secrets = append(a.secrets, a.token)
	}
	if kind == Ntfy {
		a.topic = strings.Trim(u.Path, "/")
		if !isTopic(a.topic) || u.RawQuery != "" {
			return a, errors.New("what follows the host is not the name of a topic")
		}
		// A message as JSON goes to the root. Headers could not hold every name.
		a.url, a.secrets = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}).String(), append(a.secrets, a.topic)
	}
	return a, nil
}

// telegram parses the token of a bot, a chat, and the address of a server.
func telegram(fields []string) (a address, err error) {
	if len(fields) < 2 {
		return a, errors.New("the id of the chat is missing")
	}
	id, key, found := strings.Cut(fields[0], ":")
	if _, err := strconv.ParseUint(id, 10, 64); err != nil || !found || key == "" || !isKey(key) {
		return a, errors.New("what comes first is not the token of a bot")
	}
	a.chat = fields[1]
	if _, err := strconv.ParseInt(a.chat, 10, 64); err != nil && !strings.HasPrefix(a.chat, "@") {
		return a, errors.New("what comes second is neither the number of a chat nor @CHANNEL")
	}
	base := "https://api.telegram.org"
	if len(fields) > 2 {
		u, err := parseURL(fields[2])
		if err != nil {
			return a, err
		}
		base = strings.TrimSuffix(u.String(), "/")
	}
	a.url, a.secrets = base+"/bot"+fields[0]+"/sendMessage", []string{fields[0], key}
	return a, nil
}

func isKey(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

func isTopic(s string) bool { return s != "" && len(s) <= 64 && isKey(s) }

// parseURL parses an address that is safe to send to: what is on the way must not read it.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Host == "", u.Opaque != "":
		return nil, errors.New("the address is not valid")
	case u.User != nil:
		return nil, errors.New("the address has a user; give a token after it instead")
	case u.Scheme == "https", u.Scheme == "http" && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname()):
		u.Fragment = ""
		return u, nil
	}
	return nil, errors.New("the address does not begin with https:// (http:// is for this machine alone)")
}

// readPrivate reads a file that others cannot read.
func readPrivate(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", cause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", cause(err)
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a regular file")
	}
	if err := private(path, info); err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxAddress+1))
	switch {
	case err != nil:
		return "", cause(err)
	case len(data) > maxAddress, bytes.ContainsRune(data, 0):
		return "", errors.New("that is no address")
	}
	return string(data), nil
}

// cause is err without the path, which the destination says.
func cause(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}

// redact hides what is secret in a text of a server or of the system.
func (a address) redact(s string) string {
	all := slices.Clone(a.secrets)
	slices.SortFunc(all, func(x, y string) int { return len(y) - len(x) }) // a part after the whole
	for _, secret := range all {
		if len(secret) > 5 { // the shorter parts of a path are in every text
			s = strings.ReplaceAll(s, secret, "[hidden]")
		}
	}
	return s
}
