package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/plain"
)

func newPermit(a *app) *cobra.Command {
	var answers []string
	var session string
	cmd := &cobra.Command{
		Use:   "permit [ID]",
		Short: "Allow an agent's request, or list the questions of agents",
		Long: `Allow a use of a tool, approve a plan, or answer a question of an agent.

Questions come from agents that the service runs with --permissions ask, and
from sessions at their terminals if "teambridge setup questions" was run.
Without an ID, the open questions are listed. The first 4 characters of an id
are enough, or more if several ids begin with them. Only the first answer to a
question counts.

--session also allows a rule until the agent is restarted: the first rule that
the question offers, or the given one. If an agent asks a question of its own
(AskUserQuestion), give an --answer to each of its questions.

Exit status: 0 allowed; 2 several questions match, or the answer does not fit;
3 no such question; 4 the service does not answer; 5 it was answered before, or
withdrawn, or this is the shell of an agent.`,
		Example: `  teambridge permit
  teambridge permit 3f0c --session
  teambridge permit 71ab --answer "Which colour?=Blue"`,
		Args:              between(0, 1),
		ValidArgsFunction: completer{a}.completeFirst(completer{a}.questionIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen := cmd.Flags().Changed("session")
			if len(args) == 0 {
				if chosen || len(answers) > 0 {
					return usage("usage: teambridge permit ID [flags]", "--session and --answer need the id of a question")
				}
				return listQuestions(cmd.Context(), a)
			}
			return answerQuestion(cmd.Context(), a, args[0], func(q api.Question) (p api.Permit, err error) {
				p.Allow = true
				if p.Answers, err = parseAnswers(q, answers); err != nil || !chosen {
					return p, err
				}
				if p.Session = session; session == firstRule {
					if len(q.Session) == 0 {
						return p, usage("omit --session to allow it once", "question %s offers no rule for the session", q.ID)
					}
					p.Session = q.Session[0]
				}
				return p, nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&session, "session", "", "also allow a rule of the question until the agent is restarted, such as --session='Bash(go test *)'")
	f.Lookup("session").NoOptDefVal = firstRule
	must(cmd.RegisterFlagCompletionFunc("session", completer{a}.questionRules))
	f.StringArrayVar(&answers, "answer", nil, "answer a question, as QUESTION=TEXT; just TEXT if there is only one; several choices as A, B")
	return cmd
}

// firstRule is the value of --session without an argument. It is no rule.
const firstRule = "first"

func newDeny(a *app) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "deny ID",
		Short: "Deny an agent's request",
		Long: `Deny a use of a tool, a plan, or an answer to an agent.

"teambridge permit" lists the open questions.

Exit status: 0 denied; 2 several questions match; 3 no such question; 4 the
service does not answer; 5 it was answered before, or withdrawn.`,
		Example:           `  teambridge deny 3f0c --reason "not on Fridays"`,
		Args:              exactly(1),
		ValidArgsFunction: completer{a}.completeFirst(completer{a}.questionIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return answerQuestion(cmd.Context(), a, args[0], func(api.Question) (api.Permit, error) {
				return api.Permit{Reason: reason}, nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the agent")
	return cmd
}

// parseAnswers returns the values of --answer by question.
func parseAnswers(q api.Question, values []string) (map[string]string, error) {
	asked := q.Asked()
	answers := map[string]string{}
	for _, v := range values {
		i := slices.IndexFunc(asked, func(text string) bool { return strings.HasPrefix(v, text+"=") })
		switch {
		case i >= 0:
			answers[asked[i]] = v[len(asked[i])+1:]
		case len(asked) == 1:
			answers[asked[0]] = v
		case len(asked) == 0:
			return nil, usage("omit --answer to allow it", "question %s is whether %s may be used", q.ID, q.Tool)
		default:
			return nil, usage(fmt.Sprintf("it asks %q", asked), "--answer %q does not begin with a question and =", v)
		}
	}
	return answers, nil
}

// answerQuestion answers the open question whose id begins with id.
func answerQuestion(ctx context.Context, a *app, id string, answer func(api.Question) (api.Permit, error)) error {
	if inside, _ := a.lookup("CLAUDECODE"); inside != "" {
		return refuse("run it in a terminal of your own", "this is the shell of an agent, and only a person may answer")
	}
	b := a.bridge(ctx)
	if err := b.serviceError(); err != nil {
		return err // only a service knows the questions
	}
	q, err := b.Question(ctx, a.teamName, id) // the id suffices, whatever $TEAMBRIDGE_TEAM is
	if err != nil {
		return err
	}
	p, err := answer(q.Question)
	if err != nil {
		return err
	}
	for _, text := range append(slices.Collect(maps.Values(p.Answers)), p.Reason) {
		if !utf8.ValidString(text) { // JSON would change it silently
			return usage("", "the text for the agent is not valid UTF-8")
		}
	}
	p.Question, p.Digest = q.ID, q.Digest
	answered, err := b.Answer(ctx, q.ID, p)
	if err != nil {
		if u, ok := errors.AsType[*client.UnreachableError](err); ok && u.Sent {
			return api.Decide(api.CodeUnknown, "answer it again; if the first answer arrived, the second one is refused and says what was decided",
				"it is not known whether the answer to question %s arrived: %w", q.ID, err)
		}
		return err
	}
	return a.answer(answered, "%s  %s  %s@%s  %s\n", answered.State, q.ID, escape(q.Member, false), escape(q.Team, false), escape(questionText(q.Question), false))
}

func listQuestions(ctx context.Context, a *app) error {
	team, err := a.namedTeam("")
	if err != nil {
		return err
	}
	b := a.bridge(ctx)
	if err := b.serviceError(); err != nil {
		return err // only a service knows the questions
	}
	list, err := b.Questions(ctx, team)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(list)
	}
	if len(list) == 0 {
		a.note("no agent waits for an answer")
		return nil
	}
	rows := [][]string{{"QUESTION", "MEMBER", "SINCE", "ASKS", "FOR THE SESSION"}}
	for _, q := range list {
		rows = append(rows, []string{shortID(q.ID), q.Member + "@" + q.Team, clock(q.At), questionText(q.Question), dash(strings.Join(q.Session, "; "))})
	}
	return a.print([]byte(plain.Table(rows, a.width(), 0))) // not cut to the terminal's width, since the person must see all of it
}

// questionText returns the question of an agent in one line.
func questionText(q api.Question) string {
	switch {
	case q.Kind == api.AsksPerson:
		return strings.Join(q.Asked(), " ")
	case q.Kind == api.AsksPlan:
		return "approve the plan: " + q.Plan
	}
	return toolText(q.Tool, q.Input)
}

// toolText shows a tool call in one line: its main argument, its description, and the rest of its input.
func toolText(tool string, input []byte) string {
	var fields map[string]any
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	if err := dec.Decode(&fields); err != nil || fields == nil {
		return tool + " " + string(input)
	}
	text := tool
	take := func(key, before, after string) bool {
		value, ok := fields[key].(string)
		if ok {
			text += before + value + after
			delete(fields, key)
		}
		return ok
	}
	for _, key := range []string{"command", "file_path", "notebook_path", "url", "query", "pattern"} {
		if take(key, ": ", "") {
			break
		}
	}
	take("description", " (", ")")
	if line, err := jsonLine(fields); err == nil && len(fields) > 0 {
		text += " " + strings.TrimSuffix(string(line), "\n")
	}
	return text
}
