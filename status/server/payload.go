package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"teambridge/status/api"
	"teambridge/status/bridge"
)

// isPayloads reports whether the body of a request has payloads of the session protocol, [api.PayloadsType]. It fails
// if the parameters of its content type are wrong.
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

// payloads parses the payloads in the body of a request.
func (s *Server) payloads(r *http.Request) ([]bridge.Payload, error) {
	data, err := io.ReadAll(r.Body)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, api.Decide(api.CodeBodyTooLarge, "", "the body is larger than %d bytes", large.Limit)
	}
	if err != nil {
		return nil, api.Decide(api.CodeBody, "nothing was sent", "the body: %v", err)
	}
	var lines []bridge.Payload
	number := 0
	for text := range bytes.Lines(data) {
		number++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		in, taken, err := s.opts.Payloads.Parse(text)
		if err != nil {
			return nil, bridge.InvalidLine(number, err)
		}
		lines = append(lines, bridge.Payload{Line: number, Dropped: !taken, Input: in})
	}
	if len(lines) == 0 {
		return nil, api.Decide(api.CodeBody, seeDocument, "the body has no payloads")
	}
	return lines, nil
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
	answer, err := s.local.SendPayloads(r.Context(), r.PathValue("team"), r.PathValue("member"), lines, s.opts.Payloads.Dropped())
	if err != nil || !slices.ContainsFunc(answer.Results, func(r api.PayloadResult) bool { return r.Sent != nil && !r.Sent.Deduplicated }) {
		return answer, err
	}
	return nil, write(w, http.StatusCreated, answer)
}
