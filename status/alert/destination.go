package alert

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
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

// bodies has the template of the body for each kind of destination: see [request.render].
var bodies = map[string]string{
	Ntfy:  `{"topic":$to,"title":$title,"message":$lines}`, // docs.ntfy.sh/publish, "Publish as JSON"
	Slack: `{"mrkdwn":false,"text":$slack}`,                // docs.slack.dev, "Sending messages using incoming webhooks"
	// core.telegram.org/bots/api#sendmessage; without a parse_mode, there is no markup
	Telegram: `{"chat_id":$to,"text":$plain,"link_preview_options":{"is_disabled":true}}`,
	Webhook:  `{"title":$title,"text":$text,"things":$things,"more":$more}`,
}

// Destination is a place that alerts are sent to. Its address is a secret, so a Destination has only the name of the
// file or variable with the address.
type Destination struct {
	Kind     string
	File     string // absolute; empty: Variable has the address
	Variable string
}

// Parse parses KIND=FILE or KIND=env:VARIABLE. It reads neither.
func Parse(spec string) (d Destination, err error) {
	kind, source, found := strings.Cut(spec, "=")
	name, isVariable := strings.CutPrefix(source, "env:")
	switch {
	case !found || !slices.Contains(Kinds, kind): // do not repeat the rest in the error: it may be the address
		return d, fmt.Errorf("an alert is one of %s, then =FILE or =env:VARIABLE, with the address there", strings.Join(Kinds, ", "))
	case isVariable && (name == "" || strings.ContainsAny(name, "= \x00")):
		return d, fmt.Errorf("%s=env: needs the name of a variable", kind)
	case isVariable:
		return Destination{Kind: kind, Variable: name}, nil
	case source == "" || strings.Contains(source, "://"):
		return d, fmt.Errorf("%s= needs the name of a file that has the address: on the command line, others could read it", kind)
	}
	file, err := filepath.Abs(source)
	return Destination{Kind: kind, File: file}, err
}

func (d Destination) String() string {
	if d.Variable != "" {
		return d.Kind + " ($" + d.Variable + ")"
	}
	return d.Kind + " (" + d.File + ")"
}

// Check reads the address, and returns an error if it is invalid.
func (d Destination) Check(lookup func(string) (string, bool)) error {
	_, err := d.load(lookup)
	return err
}

// request is the parsed content of a destination's file. None of it may appear in an error or a log.
type request struct {
	url, token string
	to         string         // the topic of ntfy, or the chat of Telegram
	body       string         // one of bodies, or the person's own
	secrets    *regexp.Regexp // matches each word of the file but the host
}

// load reads and parses the address. The errors do not repeat it.
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
	fields := append(strings.Fields(head), "")
	address, rest := fields[0], fields[1:]
	switch {
	case kind == Telegram && len(rest) != 2:
		return r, errors.New("it should have the token of a bot, or https://HOST/botTOKEN/sendMessage, and the id of a chat")
	case kind == Telegram && !strings.Contains(address, "://"):
		address = "https://api.telegram.org/bot" + address + "/sendMessage"
	case len(rest) == 0, len(rest) > 2, strings.ContainsFunc(rest[0], func(r rune) bool { return r > '~' || r <= ' ' }):
		return r, errors.New("it should have an https:// address and, if the server wants one, a token of plain characters; a body of your own begins with { on a line of its own")
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname())) { // nobody on the way may read it
		return r, errors.New("the address does not begin with https:// and a host; http:// is for this machine alone, and a token stands after the address")
	}
	words := regexp.MustCompile(`[\w-]{4,}`).FindAllString(strings.Replace(text, u.Scheme+"://"+u.Host, "", 1), -1)
	r.secrets = regexp.MustCompile(strings.Join(append(words, "\x00"), "|")) // an empty expression would match everywhere
	r.secrets.Longest()                                                      // one secret may be a part of another
	r.token = rest[0]
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

// render returns the body for an alert. It replaces each $name in the template with a value as JSON, so that no text
// can leave its place.
func (r request) render(m alert) ([]byte, error) {
	plain := m.Title + "\n" + m.Lines
	values := map[string]any{
		"title": m.Title, "lines": m.Lines, "plain": plain, "slack": references.Replace(plain), "text": markdown(plain),
		"things": m.Things, "more": m.More, "to": r.to,
	}
	var faults error
	body := os.Expand(r.body, func(name string) string {
		value, known := values[name]
		data, err := rawjson.Encode(value)
		if !known { // do not name it in the error: it may be a secret
			err = errors.New("a $name in the body is none of $title, $text, $plain, $things and $more")
		}
		faults = errors.Join(faults, err)
		return string(data)
	})
	if faults == nil && !json.Valid([]byte(body)) {
		faults = errors.New("the body is not JSON; a $name in it stands for a text with its quotes")
	}
	return []byte(body), faults
}

// maxAddress limits the bytes of the file.
const maxAddress = 4 << 10

// readPrivate reads a file. It refuses one that others can read.
func readPrivate(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case !info.Mode().IsRegular() || info.Size() > maxAddress:
		return "", errors.New("it is not a regular file of 4 KiB at most, so that is no address")
	case atomicfile.Exposed(info):
		return "", fmt.Errorf("others can read it (mode %04o); type: chmod 600 %s", info.Mode().Perm(), shell.Quote(path))
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if p, ok := errors.AsType[*os.PathError](err); ok {
		err = p.Err // without the path, since the destination has it
	}
	return string(data), err
}
