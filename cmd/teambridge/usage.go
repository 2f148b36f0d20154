package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/status/api"
)

func newUsage(a *app) *cobra.Command {
	var q api.UsageQuery
	var since string
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show the tokens that agents have used, and the cost",
		Long: `Show the tokens that agents have used since the beginning of the sixth day
before today, or since --since, the largest numbers first.

Token counts come from Claude Code's transcripts, one for each answer of a
model. Subagents count for the agent that started them. The part of a session
that a fork has copied counts once. For agents of other programs, the counts
come from the records of a service or "teambridge run"; sessions of Codex and
Qwen Code are not counted.

The cost is reported by Claude Code itself, in US dollars; nothing is computed
from a list of prices. A headless agent reports it after each turn, if a service
or "teambridge run" relays to it. A session in a terminal reports it when it
ends, from Claude Code 2.1.280 on. "+" after a cost means that it does not cover
all of the tokens. It is the cost of a process: if teammates are in the same
process as their lead, their cost is the lead's.

--by groups the counts by agent, team, day, model or project, or by several of
them, as in --by day,team.

Exit status: 0, even if there is nothing; 2 usage; 3 there is no Claude
directory.`,
		Example: `  teambridge usage --by day,team --since 30d`,
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if q.Since, err = parseFrom(since); err != nil {
				return err
			}
			if q.Team, err = a.namedTeam(""); err != nil {
				return err
			}
			return printUsage(cmd.Context(), a, q)
		},
	}
	sinceFlag(cmd, &since, "tokens")
	cmd.Flags().StringSliceVar(&q.By, "by", []string{api.ByAgent}, "count by agent, team, day, model, project; several with commas")
	must(cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{api.ByAgent, api.ByTeam, api.ByDay, api.ByModel, api.ByProject}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func printUsage(ctx context.Context, a *app, q api.UsageQuery) error {
	u, err := a.bridge(ctx).Usage(ctx, q)
	if err != nil {
		return err
	}
	a.warnMissed(u)
	if a.json {
		return a.printJSON(u)
	}
	if len(u.Rows) == 0 {
		a.note("no agent has used any tokens since %s", clock(u.Since))
		return nil
	}
	var head []string
	for _, by := range u.By {
		head = append(head, strings.ToUpper(by))
	}
	rows := [][]string{append(head, usageColumns...)}
	for _, r := range u.Rows {
		rows = append(rows, usageRow(u.By, r))
	}
	if len(u.Rows) > 1 {
		total := usageRow(u.By, u.Total)
		total[0] = "total"
		for i := range u.By[1:] {
			total[i+1] = ""
		}
		rows = append(rows, total)
	}
	return a.table(rows)
}

// warnMissed warns of transcripts that could not be counted.
func (c *console) warnMissed(u api.Usage) {
	for _, m := range u.Missed {
		c.warn("%s; what is there is not counted", m)
	}
}

// usageColumns are the heads of the columns of numbers.
var usageColumns = []string{"ANSWERS", "INPUT", "CACHE WRITE", "CACHE READ", "OUTPUT", "COST"}

func usageRow(by []string, r api.UsageRow) (row []string) {
	for _, b := range by {
		row = append(row, cmp.Or(map[string]string{
			api.ByAgent: strings.TrimPrefix(r.Member+"@"+r.Team, "@"), api.ByTeam: r.Team, api.ByDay: r.Day, api.ByModel: r.Model, api.ByProject: r.Project,
		}[b], "-"))
	}
	for _, n := range []int64{r.Answers, r.Input, r.CacheCreation, r.CacheRead, r.Output} {
		row = append(row, thousands(n))
	}
	cost := "-"
	if r.Cost != nil {
		if cost = "$" + strconv.FormatFloat(*r.Cost, 'f', 2, 64); *r.Cost < 0.01 {
			cost = "$" + strconv.FormatFloat(*r.Cost, 'f', 6, 64)
		}
		if r.Unstated {
			cost += "+"
		}
	}
	return append(row, cost)
}

// thousands writes a number with a comma before each three digits.
func thousands(n int64) string {
	var parts []string
	text := strconv.FormatInt(n, 10)
	for len(text) > 3 {
		parts = append(parts, text[len(text)-3:])
		text = text[:len(text)-3]
	}
	parts = append(parts, text)
	slices.Reverse(parts)
	return strings.Join(parts, ",")
}
