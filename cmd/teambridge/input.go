package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"teambridge/cmd/stdio"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/relay/mode"
	"teambridge/status/view"
	"teambridge/teams/rawjson"
)

// line is a line of standard input: a prompt, or the answer to a question.
type line struct {
	Text     string    `json:"text"`
	Mode     mode.Mode `json:"mode"`
	Isolated bool      `json:"isolated"`

	// The answer to a question of the agent, if Permit is set.
	Permit  string            `json:"permit"`
	Digest  string            `json:"digest"`
	Allow   bool              `json:"allow"`
	Session string            `json:"session"`
	Answers map[string]string `json:"answers"`
	Reason  string            `json:"reason"`
}

func (l line) answer() fleet.Answer {
	return fleet.Answer{Question: l.Permit, Digest: l.Digest, Allow: l.Allow, Session: l.Session, Answers: l.Answers, Reason: l.Reason}
}

// input passes the lines of standard input to the agent. It refuses invalid lines with a warning.
func (r *agentRun) input(ctx context.Context) {
	lines, take := stdio.NewLines(r.app.stdin, stdio.MaxLine), r.line
	if r.opts.input == inWire {
		take = r.payload
	}
	for {
		text, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, stdio.ErrLongLine) {
			if ctx.Err() == nil {
				r.app.warn("standard input: %v", err)
			}
			break
		}
		if err == nil {
			err = take(ctx, text)
		}
		if err != nil && ctx.Err() == nil {
			r.app.warn("line %d of standard input was refused: %s", lines.Number, view.Describe(err))
		}
	}
	r.prompter.Close("There is no person any more who could allow this.")
	r.mu.Lock()
	r.eof = true
	r.mu.Unlock()
	r.over()
}

// line passes one line of standard input to the agent, as a prompt or as the answer to its question.
func (r *agentRun) line(ctx context.Context, text []byte) error {
	if a, ok := r.keyboardAnswer(string(text)); ok {
		return r.prompter.Answer(a)
	}
	l, err := parseLine(text)
	switch {
	case err != nil:
		return err
	case l.Permit != "":
		return r.prompter.Answer(l.answer())
	case l.Text == "" && len(bytes.TrimSpace(text)) == 0:
		return nil // an empty line
	}
	_, err = r.relay.Prompt(ctx, relay.Input{Text: l.Text, Mode: l.Mode, Isolated: l.Isolated})
	return err
}

// payload is line for --input wire: the line is a payload of the session protocol, or the answer to a question.
func (r *agentRun) payload(ctx context.Context, text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if isAnswer(text) {
		l, err := parseLine(text)
		if err == nil && l.Permit == "" {
			err = errors.New("permit: must be the id of a question")
		}
		if err != nil {
			return err
		}
		return r.prompter.Answer(l.answer())
	}
	in, taken, err := r.payloads.Parse(text)
	switch {
	case err != nil:
		return err
	case taken:
		_, err = r.relay.Prompt(ctx, in)
		return err
	}
	r.mu.Lock()
	r.dropped++
	n := r.dropped
	r.mu.Unlock()
	if r.opts.output == outEvents {
		r.printJSON(map[string]any{"dropped": r.payloads.Dropped(), "count": n})
	}
	return nil
}

// isAnswer reports whether a line answers a question. A payload has a role instead.
func isAnswer(text []byte) bool {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(text, &keys) // without an object, there are no keys
	return keys["permit"] != nil && keys["role"] == nil
}

// noteDropped notes how many payloads were dropped.
func (r *agentRun) noteDropped() {
	r.mu.Lock()
	n := r.dropped
	r.mu.Unlock()
	if n == 0 {
		return
	}
	state := "off"
	if r.payloads.Modern {
		state = "on"
	}
	r.app.note("%s in the %s form dropped, since %s is %s", plural(n, "payload"), r.payloads.Dropped(), relay.ModernVariable, state)
}

// modeMapFlag adds --permission-mode-map, which run and serve share.
func modeMapFlag(cmd *cobra.Command, list *string) {
	cmd.Flags().StringVar(list, "permission-mode-map", "", "permission modes of session protocol payloads, as NAME=MODE,NAME=MODE; such as yolo=bypassPermissions,read-only=plan")
	must(cmd.RegisterFlagCompletionFunc("permission-mode-map", cobra.FixedCompletions([]string{"read-only=", "safe-yolo=", "yolo="}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)))
}

// payloads returns the settings for payloads of the session protocol.
func payloads(a *app, modes string) (p relay.Payloads, err error) {
	if p.PermissionModes, err = relay.ParsePermissionModes(modes); err != nil {
		return p, usage("such as yolo=bypassPermissions,read-only=plan", "--permission-mode-map: %w", err)
	}
	value, _ := a.lookup(relay.ModernVariable)
	p.Modern = relay.ParseSwitch(value)
	return p, nil
}

// parseLine parses a line of standard input: plain text, or a JSON object.
func parseLine(text []byte) (line, error) {
	l := line{Text: string(text)}
	switch {
	case !utf8.Valid(text):
		return line{}, errors.New("it is not valid UTF-8")
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		l = line{}
		if err := rawjson.ExactFold(text); err != nil {
			return line{}, err
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); errors.Is(err, io.ErrUnexpectedEOF) {
			return line{}, errors.New("its JSON object is cut off")
		} else if err != nil {
			return line{}, fmt.Errorf("it is not the JSON object that is expected: %w", err)
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return line{}, errors.New("there is more than one JSON object in it")
		}
	}
	if strings.ContainsRune(l.Text, 0) {
		return line{}, errors.New("it has a NUL character")
	}
	return l, nil
}
