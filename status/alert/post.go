package alert

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxAnswer limits the bytes that are read of an answer.
const maxAnswer = 16 << 10

// longestWait limits the wait that a server can ask for: a wrong clock must not stop the alerts.
const longestWait = time.Hour

// answerError is an answer of a server other than success.
type answerError struct {
	why     string
	refused bool          // another attempt would not help
	after   time.Duration // the server's wait before another attempt; 0: none
}

func (e *answerError) Error() string { return e.why }

func refused(err error) bool {
	e, ok := errors.AsType[*answerError](err)
	return ok && e.refused
}

// post sends an alert. The error is an *answerError if there was an answer.
func (r request) post(ctx context.Context, c *http.Client, m alert) error {
	data, err := r.render(m)
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(data))
	if err != nil {
		return errors.New("the address is not valid") // err would repeat the address
	}
	q.Close = true // alerts are rare
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", "teambridge")
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	answer, err := c.Do(q)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the address
		}
		return errors.New(r.redact(err.Error()))
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // it only explains the status
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return r.judge(answer, string(text))
}

// judge returns the error for an answer other than success.
func (r request) judge(a *http.Response, text string) error {
	code := a.StatusCode
	e := &answerError{why: strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code)), after: retryAfter(a.Header.Get("Retry-After"))}
	if text = short(r.redact(text), 200); text != "" && !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
		e.why += ": " + text
	}
	switch {
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return e
	case code < 400: // another server would get the token
		e.why += "; redirects are not followed"
	}
	e.why, e.refused = "refused: "+e.why, true
	return e
}

// redact hides secrets in a text of a server or of the system.
func (r request) redact(s string) string { return r.secrets.ReplaceAllString(s, "[hidden]") }

// retryAfter parses a Retry-After header, which has seconds or a time.
func retryAfter(header string) (wait time.Duration) {
	if at, err := http.ParseTime(header); err == nil {
		wait = time.Until(at)
	} else if seconds, err := strconv.ParseFloat(header, 64); err == nil {
		wait = time.Duration(min(seconds, longestWait.Seconds())) * time.Second
	}
	return min(wait, longestWait)
}
