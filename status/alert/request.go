package alert

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"teambridge/teams/rawjson"
)

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 16 << 10

// refusedError is the answer of a server that would not change if it was asked again.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return "refused: " + e.why }

// laterError is the answer of a server that says when to ask again; the other errors of send say
// nothing about that.
type laterError struct {
	why   string
	after time.Duration
}

func (e *laterError) Error() string { return e.why }

// send sends an alert. The error is a *refusedError if trying again is no use.
func (d Destination) send(ctx context.Context, c *http.Client, a address, m alert) error {
	data, err := d.body(a, m)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(data))
	if err != nil {
		return errors.New("the address is not valid") // err would repeat it
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "teambridge")
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	answer, err := c.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the address
		}
		return errors.New(a.redact(err.Error()))
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // it only explains the status
	return d.judge(answer, said, a)
}

// body is what the service documents for a message.
func (d Destination) body(a address, m alert) ([]byte, error) {
	switch d.Kind {
	case Ntfy: // docs.ntfy.sh/publish, "Publish as JSON"
		return rawjson.Encode(map[string]any{"topic": a.topic, "title": m.Title, "message": m.Text})
	case Slack: // docs.slack.dev, "Sending messages using incoming webhooks"
		return rawjson.Encode(map[string]any{"text": references.Replace(m.whole()), "mrkdwn": false})
	case Telegram: // core.telegram.org/bots/api#sendmessage; without a parse_mode, there is no markup
		var chat any = a.chat
		if n, err := strconv.ParseInt(a.chat, 10, 64); err == nil {
			chat = n
		}
		return rawjson.Encode(map[string]any{"chat_id": chat, "text": m.whole(), "link_preview_options": map[string]bool{"is_disabled": true}})
	}
	m.Text = markdown(m.Text) // the other texts are for programs, and are as they were
	return rawjson.Encode(m)
}

// references makes text of Slack's markup for links and mentions, which other servers understand as well: <!channel> would
// notify everybody.
var references = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// markdown is a text that servers such as Mattermost show as it is: without markup, links with other words, or mentions. It does
// not change the name of a member, such as my_worker@team, which a person may copy.
func markdown(text string) string {
	var b strings.Builder
	list := []rune(references.Replace(text))
	word := func(i int) bool {
		return i >= 0 && i < len(list) && (unicode.IsLetter(list[i]) || unicode.IsDigit(list[i]) || strings.ContainsRune("_-.", list[i]))
	}
	for i, r := range list {
		switch {
		case r == '@' && !word(i-1):
			b.WriteString("@\u200b") // no server takes that for a mention
			continue
		case r == '_' && word(i-1) && word(i+1):
		case strings.ContainsRune("\\`*_[]()#~|!", r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// judge says what an answer means.
func (d Destination) judge(r *http.Response, said []byte, a address) error {
	var answer struct {
		Description string `json:"description"` // of Telegram
		Error       string `json:"error"`       // of ntfy
		Parameters  struct {
			RetryAfter int64 `json:"retry_after"`
		} `json:"parameters"`
	}
	_ = json.Unmarshal(said, &answer) // Slack answers in plain text
	why := cmp.Or(answer.Description, answer.Error)
	if why == "" && !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
		why = string(said)
	}
	status := strings.TrimSpace(strconv.Itoa(r.StatusCode) + " " + http.StatusText(r.StatusCode))
	if why = short(a.redact(why), 200); why != "" {
		status += ": " + why
	}
	switch code := r.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		after := retryAfter(r.Header.Get("Retry-After"), time.Now())
		if d.Kind == Telegram {
			after = max(after, seconds(answer.Parameters.RetryAfter))
		}
		return &laterError{status, after}
	case code >= 300 && code < 400: // another server would get the token
		return &refusedError{status + "; redirects are not followed"}
	}
	return &refusedError{status}
}

// longestWait is the longest time that a server can have us wait for: a wrong clock somewhere should
// not end the alerts.
const longestWait = time.Hour

// retryAfter parses a Retry-After header: seconds, or a time.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64); err == nil {
		return seconds(n)
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), longestWait))
}

func seconds(n int64) time.Duration {
	if n > int64(longestWait/time.Second) {
		return longestWait
	}
	return time.Duration(max(n, 0)) * time.Second
}
