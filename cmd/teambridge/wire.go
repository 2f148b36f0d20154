package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/cmd/stdio"
	"teambridge/relay/wire"
	"teambridge/status/api"
)

// maxWireLine is the length in bytes of the longest line that wire validate checks.
const maxWireLine = 16 << 20

// wireTypes are the types of the session protocol that wire validate knows.
var wireTypes = []string{"envelope", "payload", "message", "update"}

func newWire(a *app) *cobra.Command {
	var as string
	validate := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check lines of session protocol JSON",
		Long: `Check each line of a file, or of standard input, as a session protocol value.

Each line must be one JSON value: an envelope, a payload (the content of a
message, with a role), a message of a session, or an update. Which of them it is
shows in its keys, unless --as says it. Blank lines are skipped. For each broken
rule a line is printed, with the number of the line and the path of the value.
--json prints an object for each invalid line:

  {"line": 3, "type": "envelope", "issues": [{"path": "ev.call", "rule": "…"}]}

At most 20 rules are reported per line. Lines of more than 16 MiB are invalid.

Exit status: 0 all lines are valid; 1 some are not; 2 usage; 3 there is no such
file.`,
		Example: `  teambridge wire validate session.ndjson
  tail -n 1 session.ndjson | teambridge wire validate --as envelope`,
		Args: between(0, 1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, noFiles
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error { return validateWire(cmd.Context(), a, as, args) },
	}
	validate.Flags().StringVar(&as, "as", "", "type of all lines: "+strings.Join(wireTypes, ", "))
	complete(validate, "as", wireTypes...)
	return group("wire", "Session protocol: check what front ends read and write",
		`Check JSON of the session protocol, which front ends use.`, validate)
}

// invalidLine is what is wrong with a line.
type invalidLine struct {
	Line   int          `json:"line"`
	Type   string       `json:"type,omitempty"` // if it is known
	Issues []wire.Issue `json:"issues"`
}

func validateWire(ctx context.Context, a *app, as string, args []string) error {
	if as != "" {
		if err := oneOfThese("as", as, wireTypes...); err != nil {
			return err
		}
	}
	in, name := a.stdin, "standard input"
	if len(args) > 0 && args[0] != "-" {
		f, err := os.Open(args[0])
		if errors.Is(err, fs.ErrNotExist) {
			return notFound("", "there is no file %s", args[0])
		}
		if err != nil {
			return err
		}
		defer f.Close()
		in, name = f, args[0]
	}
	checked, invalid := 0, 0
	var err error
	if late := interruptibly(ctx, func() { checked, invalid, err = checkLines(ctx, a, in, as) }); late != nil {
		return late
	}
	switch {
	case err != nil:
		return fmt.Errorf("check %s: %w", name, err)
	case invalid > 0:
		return api.Decide(api.CodeError, "", "invalid lines: %d of %d", invalid, checked)
	}
	a.note("%s checked, all valid", plural(checked, "line"))
	return nil
}

// checkLines checks each line of in, prints what is wrong, and counts.
func checkLines(ctx context.Context, a *app, in io.Reader, as string) (checked, invalid int, err error) {
	lines := stdio.NewLines(in, maxWireLine)
	for ctx.Err() == nil {
		line, err := lines.Next()
		bad := invalidLine{Line: lines.Number, Type: as}
		switch {
		case errors.Is(err, io.EOF):
			return checked, invalid, nil
		case errors.Is(err, stdio.ErrLongLine):
			err, bad.Issues = nil, []wire.Issue{{Rule: fmt.Sprintf("must be at most %d bytes long", maxWireLine)}}
		case err != nil:
			return checked, invalid, err
		case len(bytes.TrimSpace(line)) == 0:
			continue
		default:
			bad.Type, bad.Issues = checkWire(line, as)
		}
		checked++
		if len(bad.Issues) == 0 {
			continue
		}
		invalid++
		if a.json {
			err = a.printJSON(bad)
		}
		for _, i := range bad.Issues {
			if !a.json && err == nil {
				err = a.printf("line %d: %s\n", bad.Line, escape(i.String(), false))
			}
		}
		if err != nil {
			return checked, invalid, err
		}
	}
	return checked, invalid, context.Cause(ctx)
}

// checkWire returns the type of a line, which is as unless that is empty, and the rules that
// it breaks.
func checkWire(line []byte, as string) (kind string, issues []wire.Issue) {
	kind = as
	if as == "" {
		if kind = wireType(line); kind == "" && json.Valid(line) && bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) {
			return "", []wire.Issue{{Rule: "must have one of the keys ev, role, content and body"}}
		}
	}
	err := parseWire(kind, line)
	if broken, ok := errors.AsType[*wire.Error](err); ok {
		issues = broken.Issues
	} else if err != nil {
		issues = []wire.Issue{{Rule: err.Error()}}
	}
	return kind, issues
}

// parseWire parses a line as a type; without one as a payload, which tells why it is no object.
func parseWire(kind string, line []byte) (err error) {
	switch kind {
	case "envelope":
		return new(wire.Envelope).UnmarshalJSON(line)
	case "message":
		return new(wire.SessionMessage).UnmarshalJSON(line)
	case "update":
		return new(wire.CoreUpdateContainer).UnmarshalJSON(line)
	}
	_, err = wire.ParseMessageContent(line)
	return err
}

// wireType tells from its keys what a line is to be, or returns "".
func wireType(line []byte) string {
	var keys map[string]json.RawMessage
	if json.Unmarshal(line, &keys) != nil {
		return ""
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return keys[name] != nil })
	}
	switch {
	case has("ev"):
		return "envelope"
	case has("body"):
		return "update"
	case has("role") && (has("content") || !has("time")):
		return "payload"
	case has("role"):
		return "envelope"
	case has("content") && has("seq", "createdAt"):
		return "message"
	case has("content"):
		return "payload"
	}
	return ""
}
