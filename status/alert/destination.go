package alert

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teambridge/relay/shell"
	"teambridge/teams/atomicfile"
	"teambridge/teams/rawjson"
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

// bodies has what is posted to a kind of destination, with $names of values: see [request.render].
var bodies = map[string]string{
	Ntfy:  `{"topic":$to,"title":$title,"message":$lines}`, // docs.ntfy.sh/publish, "Publish as JSON"
	Slack: `{"mrkdwn":false,"text":$slack}`,                // docs.slack.dev, "Sending messages using incoming webhooks"
	// core.telegram.org/bots/api#sendmessage; without a parse_mode, there is no markup
	Telegram: `{"chat_id":$to,"text":$plain,"link_preview_options":{"is_disabled":true}}`,
	Webhook:  `{"title":$title,"text":$text,"things":$things,"more":$more}`,
}

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

func (d Destination) String() string {
	if d.Variable != "" {
		return d.Kind + " ($" + d.Variable + ")"
	}
	return d.Kind + " (" + d.File + ")"
}

// Check reports what is wrong with the address.
func (d Destination) Check(lookup func(string) (string, bool)) error {
	_, err := d.load(lookup)
	return err
}

// request is what a destination says. Nothing of it may be in an error or a log.
type request struct {
	url, token string
	to         string // the topic of ntfy, or the chat of Telegram
	body       string // one of bodies, or the person's own

	secrets []string // to be removed from what servers say
}

// load reads the address. The errors do not repeat what they are about.
func (d Destination) load(lookup func(string) (string, bool)) (r request, err error) {
	var text string
	if d.Variable == "" {
		text, err = readPrivate(d.File)
	} else if text, _ = lookup(d.Variable); text == "" {
		err = errors.New("the variable is not set")
	}
	if err == nil {
		r, err = parse(d.Kind, text)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", d, err)
	}
	return r, err
}

// parse parses an address, a token, and a body.
func parse(kind, text string) (r request, err error) {
	head, own, found := strings.Cut(text, "\n{")
	if r.body = bodies[kind]; found {
		r.body = "{" + own
	}
	fields := strings.Fields(head)
	switch {
	case kind == Telegram && len(fields) != 2:
		return r, errors.New("it should have the token of a bot, or https://HOST/botTOKEN/sendMessage, and the id of a chat")
	case kind == Telegram && !strings.Contains(fields[0], "://"):
		fields[0] = "https://api.telegram.org/bot" + fields[0] + "/sendMessage"
	case len(fields) == 0 || len(fields) > 2:
		return r, errors.New("it should have an https:// address and, if the server wants one, a token; a body of your own begins with { on a line of its own")
	}
	u, err := url.Parse(fields[0])
	switch {
	case err != nil, u.Host == "", u.Opaque != "":
		return r, errors.New("the address is not valid; it should begin with https://")
	case u.User != nil:
		return r, errors.New("the address has a user; give a token after it instead")
	case u.Scheme != "https" && !(u.Scheme == "http" && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname())): // what is on the way must not read it
		return r, errors.New("the address does not begin with https:// (http:// is for this machine alone)")
	}
	if len(fields) > 1 {
		r.token = fields[1]
	}
	if strings.ContainsFunc(r.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return r, errors.New("the token has characters that no token has")
	}
	r.secrets = strings.FieldsFunc(strings.Replace(text, u.Host, " ", 1), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
	r.secrets = slices.DeleteFunc(r.secrets, func(s string) bool { return len(s) < 4 || s == u.Scheme })
	slices.SortFunc(r.secrets, func(x, y string) int { return len(y) - len(x) }) // one may be a part of another
	switch kind {
	case Ntfy: // JSON goes to the root. Headers could not hold every name.
		if r.to = strings.Trim(u.Path, "/"); r.to == "" || strings.Contains(r.to, "/") {
			return r, errors.New("what follows the host is not the name of a topic")
		}
		u.Path = "/"
	case Telegram:
		r.to, r.token = r.token, ""
	}
	r.url = u.String()
	_, err = r.render(alert{})
	return r, err
}

// render returns the body for an alert. Each $name is a value of it as JSON, so that no text can leave its place.
func (r request) render(m alert) ([]byte, error) {
	var faults []error
	body := os.Expand(r.body, func(name string) string {
		var value any
		switch name {
		case "title":
			value = m.Title
		case "lines":
			value = m.Text
		case "plain":
			value = m.whole()
		case "text":
			value = markdown(m.whole())
		case "slack":
			value = references.Replace(m.whole())
		case "things":
			value = m.Things
		case "more":
			value = m.More
		case "to":
			value = r.to
		default:
			faults = append(faults, errors.New("a $name in the body is none of $title, $text, $plain, $things and $more")) // it may be a secret
		}
		data, err := rawjson.Encode(value)
		faults = append(faults, err)
		return string(data)
	})
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if !json.Valid([]byte(body)) {
		return nil, errors.New("the body is not JSON; a $name in it stands for a text with its quotes")
	}
	return []byte(body), nil
}

// redact hides what is secret in a text of a server or of the system: each word of the file but the host.
func (r request) redact(s string) string {
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, "[hidden]")
	}
	return s
}

// maxAddress is how long the file may be, in bytes.
const maxAddress = 4 << 10

// readPrivate reads a file that others cannot read.
func readPrivate(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a regular file")
	case info.Size() > maxAddress:
		return "", errors.New("that is no address")
	case atomicfile.Exposed(info):
		return "", fmt.Errorf("others can read it (mode %04o); type: chmod 600 %s", info.Mode().Perm(), shell.Quote(path))
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if p, ok := errors.AsType[*os.PathError](err); ok {
		err = p.Err // without the path, which the destination says
	}
	return string(data), err
}
