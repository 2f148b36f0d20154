package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"teambridge/status/api"
)

// Health returns nil if the service runs and can read its journal. It needs no token.
func (c *Client) Health(ctx context.Context) error {
	var h api.Health
	return c.do(ctx, http.MethodGet, healthPath, nil, nil, &h)
}

const healthPath = "/healthz"

// Version returns the version of the service, and whether it is read-only.
func (c *Client) Version(ctx context.Context) (v api.ServiceVersion, err error) {
	return v, c.get(ctx, "/v1/version", nil, &v)
}

// Document returns the OpenAPI 3.1 document of the API.
func (c *Client) Document(ctx context.Context) (doc map[string]any, err error) {
	return doc, c.get(ctx, "/openapi.json", nil, &doc)
}

// Target returns what a scope and names mean; see [api.Bridge].
func (c *Client) Target(ctx context.Context, s api.Scope, names ...string) (t api.Target, err error) {
	v := queryOf("team", s.Team, "default", s.Default, "dir", s.Dir, "existing", s.Existing)
	for _, name := range names {
		v.Add("name", name)
	}
	return t, c.get(ctx, "/v1/target", v, &t)
}

// Sessions returns the sessions of Claude Code on the machine of the service.
func (c *Client) Sessions(ctx context.Context) (list []api.Session, err error) {
	return list, c.get(ctx, "/v1/sessions", nil, &list)
}

// Agents returns all agents; see [api.Bridge].
func (c *Client) Agents(ctx context.Context) (all api.Agents, err error) {
	return all, c.get(ctx, "/v1/agents", nil, &all)
}

// Inbox returns what needs the person; see [api.Bridge].
func (c *Client) Inbox(ctx context.Context, q api.InboxQuery) (in api.Inbox, err error) {
	return in, c.get(ctx, "/v1/inbox", queryOf("team", q.Team, "protocol", q.Protocol, "read", q.Read), &in)
}

// Changes returns the files that an agent has changed; see [api.Bridge].
func (c *Client) Changes(ctx context.Context, team, who string, q api.ChangesQuery) (list []api.FileChanges, err error) {
	path := "/v1/transcripts/" + segment(who)
	if team != "" {
		path = memberPath(team, who)
	}
	v := queryOf("file", q.File, "patches", q.Patches)
	between(v, q.Since, time.Time{})
	return list, c.get(ctx, path+"/changes", v, &list)
}

// Usage counts tokens and cost; see [api.Bridge].
func (c *Client) Usage(ctx context.Context, q api.UsageQuery) (u api.Usage, err error) {
	v := queryOf("team", q.Team)
	between(v, q.Since, q.Until)
	v["by"] = q.By
	return u, c.get(ctx, "/v1/usage", v, &u)
}

// EndedTeams returns the teams that were recorded and no longer exist.
func (c *Client) EndedTeams(ctx context.Context) (list []api.EndedTeam, err error) {
	return list, c.get(ctx, "/v1/ended-teams", nil, &list)
}

// Tasks returns tasks of Claude Code; see [api.Bridge].
func (c *Client) Tasks(ctx context.Context, q api.TaskQuery) (found api.Tasks, err error) {
	return found, c.get(ctx, "/v1/tasks", taskQuery(q), &found)
}

// FollowTasks yields tasks as they change; see [api.Bridge].
func (c *Client) FollowTasks(ctx context.Context, q api.TaskQuery) iter.Seq2[api.Tasks, error] {
	return func(yield func(api.Tasks, error) bool) {
		v := taskQuery(q)
		v.Set("follow", "true")
		for line, err := range c.lines(ctx, withQuery("/v1/tasks", v)) {
			var found api.Tasks
			if err == nil {
				err = json.Unmarshal(line, &found)
			}
			if !yield(found, err) || err != nil {
				return
			}
		}
	}
}

// TaskHistory returns how tasks have changed; see [api.Bridge].
func (c *Client) TaskHistory(ctx context.Context, q api.TaskHistoryQuery) (h api.TaskHistory, err error) {
	v := taskQuery(q.TaskQuery)
	if q.Before > 0 {
		v.Set("before", strconv.FormatInt(q.Before, 10))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return h, c.get(ctx, "/v1/tasks/history", v, &h)
}

func taskQuery(q api.TaskQuery) url.Values {
	return queryOf("team", q.Team, "session", q.Session, "who", q.Who)
}

// Teams returns all teams, sorted by name.
func (c *Client) Teams(ctx context.Context) (list []api.Team, err error) {
	return list, c.get(ctx, "/v1/teams", nil, &list)
}

// Team returns one team, and the names of the person in it.
func (c *Client) Team(ctx context.Context, team string) (t api.TeamDetail, err error) {
	return t, c.get(ctx, teamPath(team), nil, &t)
}

// Members returns the members of a team, then the inboxes without a member.
func (c *Client) Members(ctx context.Context, team string) (list []api.Member, err error) {
	return list, c.get(ctx, teamPath(team)+"/members", nil, &list)
}

// Status says what each agent of a team is doing, or each of those with these names.
func (c *Client) Status(ctx context.Context, team string, members ...string) (list []api.Status, err error) {
	return list, c.get(ctx, teamPath(team)+"/status", url.Values{"member": members}, &list)
}

// The queries of [Client.Messages] and [Client.Search].
type (
	MessageQuery = api.MessageQuery
	SearchQuery  = api.SearchQuery
)

// Messages returns recorded messages of a team, and what its agents said and did, oldest
// first. The team may have ended.
func (c *Client) Messages(ctx context.Context, team string, q MessageQuery) (p api.Page, err error) {
	v := queryOf("inbox", q.Inbox, "from", q.From, "with", q.With, "before", q.Before,
		"limit", q.Limit, "createdAt", q.CreatedAt, "protocol", q.Protocol, "thinking", q.Thinking)
	withoutWork(v, q.MessagesOnly)
	if q.Forward || q.After != 0 {
		v.Set("after", After(q.After))
	}
	return p, c.get(ctx, teamPath(team)+"/messages", v, &p)
}

// Search returns messages of all teams, and what their agents said and did, the newest first.
func (c *Client) Search(ctx context.Context, q SearchQuery) (f api.Found, err error) {
	v := searchQuery(q)
	v.Set("q", q.Words)
	return f, c.get(ctx, "/v1/search", v, &f)
}

// History returns what was recorded, the newest first; see [api.Bridge].
func (c *Client) History(ctx context.Context, q SearchQuery) (f api.Found, err error) {
	return f, c.get(ctx, "/v1/history", searchQuery(q), &f)
}

func searchQuery(q SearchQuery) url.Values {
	v := queryOf("q", q.Words, "team", q.Team, "createdAt", q.CreatedAt, "inbox", q.Inbox, "from", q.From, "with", q.With, "after", q.After, "before", q.Before,
		"limit", q.Limit, "protocol", q.Protocol, "thinking", q.Thinking)
	withoutWork(v, q.MessagesOnly)
	between(v, q.Since, q.Until)
	return v
}

func between(v url.Values, since, until time.Time) {
	for name, at := range map[string]time.Time{"since": since, "until": until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
}

func withoutWork(v url.Values, messagesOnly bool) {
	if messagesOnly {
		v.Set("work", "false")
	}
}

// Receipt says what happened to a message that [Client.Send] sent to member under id.
func (c *Client) Receipt(ctx context.Context, team, member, id string) (r api.Receipt, err error) {
	return r, c.get(ctx, memberPath(team, member)+"/receipt", url.Values{"id": {id}}, &r)
}

// Send sends a message to a member; "lead" is the lead. Sending again under the same id
// is sending once. If id is "", the service makes a new one.
func (c *Client) Send(ctx context.Context, team, member, id string, m api.NewMessage) (s api.Sent, err error) {
	header, err := idHeader(id)
	if err != nil {
		return s, err
	}
	return s, c.do(ctx, http.MethodPost, memberPath(team, member)+"/messages", header, m, &s)
}

// SendPayloads sends payloads of the session protocol, one per line, as prompts to a
// member that the service relays to: all or, on an error, none. Those with an id or
// localKey are sent once, even if they are sent again.
func (c *Client) SendPayloads(ctx context.Context, team, member string, lines []byte) (s api.SentPayloads, err error) {
	return s, c.do(ctx, http.MethodPost, memberPath(team, member)+"/messages", nil, payloads(lines), &s)
}

// Broadcast sends a message to every agent of a team. A result has an Error if that
// message could not be sent. If id is not "", each message has the id ID-MEMBER.
func (c *Client) Broadcast(ctx context.Context, team, id string, m api.NewBroadcast) (list []api.Sent, err error) {
	header, err := idHeader(id)
	if err != nil {
		return nil, err
	}
	return list, c.do(ctx, http.MethodPost, teamPath(team)+"/broadcast", header, m, &list)
}

// Await waits until a message has come to a state; see [api.Bridge].
func (c *Client) Await(ctx context.Context, s api.Sent, until string, timeout time.Duration) (api.Sent, error) {
	var now api.Sent
	err := c.get(ctx, memberPath(s.Team, s.Member)+"/outcome", queryOf("id", s.ID, "delivery", s.Delivery, "until", until, "timeout", timeout), &now)
	if err != nil {
		return s, err
	}
	if f := now.Error; f != nil {
		err = api.Decide(f.Code, f.Hint, "%s", f.Message)
	}
	s.State, s.Reason = now.State, now.Reason
	s.WaitedMs += now.WaitedMs
	return s, err
}

// Ask sends a message to a member, and waits for the answer; see [api.Bridge].
func (c *Client) Ask(ctx context.Context, team, member, id string, q api.NewQuestion) (a api.Answered, err error) {
	header, err := idHeader(id)
	if err != nil {
		return a, err
	}
	return a, c.do(ctx, http.MethodPost, memberPath(team, member)+"/ask", header, q, &a)
}

// Wait waits until something happens in a team; see [api.Bridge].
func (c *Client) Wait(ctx context.Context, team string, o api.Occasion) (h api.Happened, err error) {
	return h, c.get(ctx, teamPath(team)+"/wait", queryOf("for", o.For, "member", o.Member, "timeout", o.Timeout), &h)
}

// Transcript yields what an agent was told, said and did; see [api.Bridge].
func (c *Client) Transcript(ctx context.Context, team, who string, q api.TranscriptQuery) iter.Seq2[json.RawMessage, error] {
	path := "/v1/transcripts/" + segment(who)
	if team != "" {
		path = memberPath(team, who) + "/transcript"
	}
	return c.lines(ctx, withQuery(path, queryOf("follow", q.Follow, "dir", q.Dir)))
}

// lines yields the lines of an answer.
func (c *Client) lines(ctx context.Context, path string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		res, err := c.open(ctx, http.MethodGet, path, nil, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		defer res.Body.Close()
		if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media != api.LinesType {
			yield(nil, c.skewed(nil, "the answer to GET %s is %q, and no lines", path, media))
			return
		}
		in := reader{in: bufio.NewReader(res.Body), alive: func() {}}
		for {
			line, err := in.line()
			if err == io.EOF {
				return
			}
			if err != nil {
				err = c.unreachable(ctx, true, err)
			} else if last := (api.LineError{}); bytes.HasPrefix(line, []byte(`{"error":`)) {
				if err = json.Unmarshal(line, &last); err == nil {
					err = api.Decide(last.Error.Code, last.Error.Hint, "%s", last.Error.Message)
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(bytes.Clone(line), nil) {
				return
			}
		}
	}
}

// Read returns messages that are in inboxes; see [api.Bridge].
func (c *Client) Read(ctx context.Context, team string, q api.Reading) (found api.Rows, err error) {
	v := queryOf("own", q.Own, "from", q.From, "after", q.After, "unread", q.Unread, "protocol", q.Protocol,
		"history", q.History, "limit", q.Limit)
	for _, name := range q.Inboxes {
		v.Add("inbox", name)
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	return found, c.get(ctx, teamPath(team)+"/inboxes", v, &found)
}

// MarkRead marks messages in an inbox of the person as read.
func (c *Client) MarkRead(ctx context.Context, team string, m api.MarkRead) (done api.Marked, err error) {
	return done, c.do(ctx, http.MethodPost, teamPath(team)+"/read", nil, m, &done)
}

// Join joins a team; see [api.Bridge].
func (c *Client) Join(ctx context.Context, team string, n api.NewJoin) (m api.Membership, err error) {
	return m, c.do(ctx, http.MethodPost, teamPath(team)+"/join", nil, n, &m)
}

// Leave leaves a team; see [api.Bridge].
func (c *Client) Leave(ctx context.Context, team, as string) (left []api.Membership, err error) {
	return left, c.do(ctx, http.MethodPost, teamPath(team)+"/leave", nil, api.Leave{As: as}, &left)
}

// SignIn returns a URL that opens the page of the service, signed in. It works once. With
// file, there is also a file that forwards to it, for the arguments of a browser. The
// error is [api.CodeRefused] if the service listens only on a unix socket.
func (c *Client) SignIn(ctx context.Context, file bool) (in api.SignIn, err error) {
	path := "/v1/sign-in"
	if file {
		path += "?file=true"
	}
	return in, c.do(ctx, http.MethodPost, path, nil, nil, &in)
}

func (c *Client) get(ctx context.Context, path string, q url.Values, v any) error {
	return c.do(ctx, http.MethodGet, withQuery(path, q), nil, nil, v)
}

// teamPath and memberPath build request paths. A name is always one segment.
func teamPath(team string) string           { return "/v1/teams/" + segment(team) }
func memberPath(team, member string) string { return teamPath(team) + "/members/" + segment(member) }

func segment(name string) string {
	switch name {
	case ".":
		return "%2E" // a "." would be cleaned from the path
	case "..":
		return "%2E%2E"
	case "":
		return "%20" // as invalid as "", but it remains a segment
	}
	return url.PathEscape(name)
}

// idHeader returns the header of a message with an id.
func idHeader(id string) (http.Header, error) {
	switch {
	case id == "":
		return nil, nil
	case !utf8.ValidString(id):
		return nil, api.Decide(api.CodeInvalid, "nothing was sent", "the id %q is not valid UTF-8", id)
	case strings.ContainsFunc(id, unicode.IsControl):
		return nil, api.Decide(api.CodeInvalid, "nothing was sent", "the id %q contains a control character", id)
	}
	return http.Header{"Idempotency-Key": []string{`"` + id + `"`}}, nil
}

// Findings returns what keeps messages to a team from arriving; if team is "", to all teams,
// with what is in order. Nothing is changed.
func (c *Client) Findings(ctx context.Context, team string) (r api.Report, err error) {
	return r, c.get(ctx, "/v1/doctor", queryOf("team", team), &r)
}

// Fix does what Findings does, and fixes what blocks agents and belongs to nobody.
func (c *Client) Fix(ctx context.Context, team string) (r api.Report, err error) {
	return r, c.do(ctx, http.MethodPost, withQuery("/v1/doctor/fix", queryOf("team", team)), nil, nil, &r)
}

// queryOf returns a query of names and values without those that are zero.
func queryOf(pairs ...any) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if v := pairs[i+1]; !reflect.ValueOf(v).IsZero() {
			q.Set(pairs[i].(string), fmt.Sprint(v))
		}
	}
	return q
}

// withQuery adds a query to a path.
func withQuery(path string, q url.Values) string {
	if text := q.Encode(); text != "" {
		path += "?" + text
	}
	return path
}
