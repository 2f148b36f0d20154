package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/status/api"
	"teambridge/status/view"
)

// isPayloads reports whether the body of a request is payloads of the session protocol:
// [api.PayloadsType]. The error is about the parameters of its type.
func isPayloads(r *http.Request) (bool, error) {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/x-ndjson" {
		return false, nil // the type is checked where the body is read
	}
	for name, value := range params {
		if name == "profile" && value != "wire" || name == "charset" && !strings.EqualFold(value, "utf-8") || name != "profile" && name != "charset" {
			return true, api.Decide(api.CodeBody, "send payloads as "+api.PayloadsType, "Content-Type has %s=%q, which is unknown here", name, value)
		}
	}
	if params["profile"] == "" {
		return true, api.Decide(api.CodeBody, "payloads of the session protocol are "+api.PayloadsType, "Content-Type does not say what the lines are")
	}
	return true, nil
}

// payloadLine is one line of a body: a prompt, unless its form is dropped.
type payloadLine struct {
	number int
	taken  bool
	input  relay.Input
}

// payloads reads the body of a request.
func (s *Server) payloads(r *http.Request) ([]payloadLine, error) {
	data, err := io.ReadAll(r.Body)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, api.Decide(api.CodeBodyTooLarge, "", "the body is larger than %d bytes", large.Limit)
	}
	if err != nil {
		return nil, api.Decide(api.CodeBody, "nothing was sent", "the body: %v", err)
	}
	var lines []payloadLine
	number := 0
	for text := range bytes.Lines(data) {
		number++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		in, taken, err := s.opts.Payloads.Parse(text)
		if err != nil {
			return nil, invalidLine(number, err)
		}
		lines = append(lines, payloadLine{number, taken, in})
	}
	if len(lines) == 0 {
		return nil, api.Decide(api.CodeBody, seeDocument, "the body has no payloads")
	}
	return lines, nil
}

func invalidLine(number int, err error) error {
	return api.Decide(api.CodeInvalid, "nothing was sent; check all lines with: teambridge wire validate", "line %d: %s", number, view.Describe(err))
}

// sendPayloads sends payloads of the session protocol as prompts, all or none.
func (s *Server) sendPayloads(w http.ResponseWriter, r *http.Request) (any, error) {
	if len(r.Header.Values("Idempotency-Key")) > 0 {
		return nil, api.Decide(api.CodeUsage, "the ids are those of the payloads", "payloads are sent without the header Idempotency-Key")
	}
	lines, err := s.payloads(r)
	if err != nil {
		return nil, err
	}
	return s.sendFrom(w, r, "", func(sender *sending) (int, any, error) {
		member, err := sender.Resolve(r.PathValue("member"), false)
		if err != nil {
			return 0, nil, err
		}
		answer, err := s.promptAll(r.Context(), sender.Sender, member, lines)
		for _, result := range answer.Results {
			if result.Sent != nil && !result.Sent.Deduplicated {
				return http.StatusCreated, answer, err
			}
		}
		return http.StatusOK, answer, err
	})
}

// promptAll sends those lines that are taken as prompts.
func (s *Server) promptAll(ctx context.Context, sender *mail.Sender, member string, lines []payloadLine) (answer api.SentPayloads, err error) {
	start := time.Now()
	prompts, reason, err := s.promptable(ctx, sender, member)
	if err != nil {
		return answer, err
	}
	if reason != "" {
		return answer, notPromptable(reason)
	}
	var inputs []relay.Input
	for _, l := range lines {
		if !l.taken {
			continue
		}
		if err := sender.Validate(mail.Message{ID: l.input.ID, Text: l.input.Text, Summary: l.input.Summary}); err != nil {
			return answer, invalidLine(l.number, err)
		}
		l.input.From, l.input.DefaultFrom = sender.From(), sender.DefaultFrom()
		inputs = append(inputs, l.input)
	}
	var results []relay.PromptResult
	if len(inputs) > 0 {
		results, err = prompts(ctx, inputs...)
	}
	switch {
	case errors.Is(err, ledger.ErrWritten):
		return answer, api.Decide(api.CodeConflict, "nothing was sent; give it another id", "%s", view.Describe(err))
	case errors.Is(err, fleet.ErrNotRunning), errors.Is(err, fleet.ErrUnknown):
		return answer, notPromptable(view.Describe(err))
	case err != nil:
		return answer, err
	}
	sent := s.sentPrompt(ctx, sender, member)
	answer.Results = make([]api.PayloadResult, 0, len(lines))
	for _, l := range lines {
		result := api.PayloadResult{Line: l.number}
		if l.taken {
			one := sent
			one.ID, one.Deduplicated, one.Delivery = results[0].ID, results[0].Again, results[0].Delivery
			one.WaitedMs = time.Since(start).Milliseconds()
			result.Sent, results = &one, results[1:]
		} else {
			result.Dropped = s.opts.Payloads.Dropped()
			answer.Dropped++
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

func notPromptable(reason string) error {
	return api.Decide(api.CodeInvalid, "nothing was sent; send it as application/json to put it into the inbox",
		"payloads are only for prompts to an agent that this service relays to: %s", reason)
}
