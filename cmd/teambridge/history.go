package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/server"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/atomicfile"
	"teambridge/teams/lockedfile"
)

// historyOptions holds the flags of history and search.
type historyOptions struct {
	api.SearchQuery
	since string
	until string
	work  workOptions
}

// flags adds the flags of history and search.
func (o *historyOptions) flags(a *app, cmd *cobra.Command, limit int) {
	o.selectionFlags(a, cmd)
	cmd.Flags().StringVar(&o.With, "with", "", "only messages from this member and to it")
	must(cmd.RegisterFlagCompletionFunc("with", completer{a}.completeMembers(-1)))
	limitFlag(cmd, &o.Limit, limit)
	protocolFlag(cmd, &o.Protocol)
	o.work.flags(cmd)
}

// selectionFlags adds the flags that select messages.
func (o *historyOptions) selectionFlags(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	fromFlag(cmd, a, &o.From)
	f.StringVar(&o.Inbox, "inbox", "", "only messages to this inbox")
	messagesSinceFlag(cmd, &o.since)
	f.StringVar(&o.until, "until", "", "only messages seen before a duration ago (1h, 30d), or a time")
	must(cmd.RegisterFlagCompletionFunc("inbox", completer{a}.completeMembers(-1)))
}

// parseSince parses a --since that is a duration or a time.
func parseSince(since string) (limit time.Time, ok bool) {
	if d, err := parseDuration(since); err == nil {
		return time.Now().Add(-d.Abs()), true
	}
	at, err := time.Parse(time.RFC3339, since)
	return at, err == nil
}

// parseFrom is [parseSince] for a --since that accepts no other form. "" is the zero time.
func parseFrom(since string) (time.Time, error) {
	if at, ok := parseSince(since); ok || since == "" {
		return at, nil
	}
	return time.Time{}, usage("as in: --since 30d, --since 2026-01-31T00:00:00Z", "--since %s is not a duration or a time", since)
}

func newHistory(a *app) *cobra.Command {
	var o historyOptions
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show messages that passed through the inboxes",
		Long: `Show the messages in the journal, oldest first.

--team or $TEAMBRIDGE_TEAM selects a team, even one that has ended. A team that
was created again under an old name is another team. The journal has every
message sent with teambridge, and the messages that others wrote while
"teambridge watch", "run", "serve" or another command was recording.

With --json, "gone" says whether a message has left its inbox, and "createdAt"
(milliseconds) identifies its team. "receipt" has the state of a message you
sent (verified, consumed, lost or unknown, and why), and "relay" the state of
one that was relayed to a headless agent. The last text of each turn of a
headless agent is recorded too, up to 1 MiB, as a message of kind "answer"; its
"inReplyTo" has the ids of the messages it answers. The agent's work before that
is between the messages, with a line for each tool call; such records have
"work". Its "state" is the state of a call: running, done, started (it continues
in the background), failed, denied, cut (off) or unknown.

Confirmations, such as reports that only say that an agent is idle, share a line
if they follow each other; --protocol shows each. --json leaves them out without
--protocol.

Of an id, the first 4 characters are enough if no other id begins with them.

Exit status: 0, even if there is nothing; 3 no message with the id of --since.`,
		Example: `  teambridge history --team myteam --with worker --since 2d`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return printRecorded(cmd.Context(), a, nil, o) },
	}
	o.flags(a, cmd, 100)
	return cmd
}

// query returns the search query of the flags.
func (o *historyOptions) query(a *app) (api.SearchQuery, error) {
	q := o.SearchQuery
	q.MessagesOnly, q.Thinking = o.work.messagesOnly, o.work.thinking
	if q.Limit < 0 {
		return q, usage("", "--limit %d is negative", q.Limit)
	}
	if q.With != "" && (q.From != "" || q.Inbox != "") {
		return q, usage("omit one of them", "--with is both directions, and cannot be used with --from or --inbox")
	}
	var ok bool
	if o.until != "" {
		if q.Until, ok = parseSince(o.until); !ok {
			return q, usage("as in: --until 2h, --until 2026-11-22T15:04:05Z", "--until %s is not a duration or a time", o.until)
		}
	}
	if o.since != "" {
		if q.Since, ok = parseSince(o.since); !ok {
			q.After = o.since
		}
	}
	var err error
	q.Team, err = a.namedTeam("")
	return q, err
}

// noSuchSince explains a not_found error of a --since that is no duration, time or message id. It returns other
// errors unchanged.
func (o *historyOptions) noSuchSince(err error) error {
	if !errors.Is(err, api.CodeNotFound) || o.since == "" {
		return err
	}
	return notFound(view.Explain(err).Hint, "--since %s is not a duration, a time, or the id of a message", o.since)
}

// printRecorded prints the messages of the journal that o selects and that contain the words, if any.
func printRecorded(ctx context.Context, a *app, words []string, o historyOptions) error {
	done := a.working("searching")
	defer done()
	q, err := o.query(a)
	if err != nil {
		return err
	}
	q.Words = strings.Join(words, " ")
	if len(words) > 0 && strings.TrimSpace(q.Words) == "" {
		return usage("such as: teambridge search build", "there are no words to search for")
	}
	fold := !a.json && !q.Protocol && q.Words == ""
	q.Protocol = q.Protocol || fold
	found, hidden, err := a.recorded(ctx, q, o.Limit, fold)
	if err != nil {
		return o.noSuchSince(err)
	}
	switch {
	case len(words) > 0:
		if len(found) == 0 {
			a.note("no messages match %q", q.Words)
		}
	case len(found)+hidden == 0 && o.From+o.Inbox+o.With+o.since+o.until+q.Team != "":
		a.note("no messages match")
	case len(found)+hidden == 0:
		a.note("the journal is empty; \"teambridge watch\" records messages")
	default:
		// A message that was sent without a service enters the journal a little later than its time.
		slices.SortStableFunc(found, func(a, b api.Record) int { return a.FirstSeen.Compare(b.FirstSeen) })
		defer a.hiddenNote(hidden)
	}
	for _, r := range found {
		a.learnNames(ctx, r.Team)
	}
	done()
	if a.json {
		return a.printJSON(found)
	}
	return printHistory(a, found, fold)
}

// recorded returns the last records that q selects, oldest first, and the number of confirmations that were left
// out. limit is the most records to return; 0 is all. With fold, a run of noise counts as one record.
func (a *access) recorded(ctx context.Context, q api.SearchQuery, limit int, fold bool) (found []api.Record, hidden int, err error) {
	found = []api.Record{}
	n, folded := 0, false // the count so far, and whether the last record was noise
	for more := true; more; {
		if q.Limit = api.MaxMessages; limit > 0 && !fold {
			q.Limit = min(q.Limit, limit-n)
		} else if limit > 0 {
			q.Limit = min(q.Limit, max(limit-n, 0)+100)
		}
		page, err := a.bridge(ctx).History(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		more = page.More
		for _, h := range page.Hits {
			is := fold && isNoise(h.Record)
			if !is || !folded {
				if limit > 0 && n == limit {
					more = false
					break
				}
				n++
			}
			folded = is
			found = append(found, h.Record)
			q.Before = h.Seq
		}
		hidden += page.Hidden
		more = more && (limit == 0 || n < limit || folded)
	}
	slices.Reverse(found)
	return found, hidden, nil
}

// printHistory prints records, with a heading where the team changes. With fold, a run of noise is one line.
func printHistory(a *app, found []api.Record, fold bool) error {
	var last teams.Instance
	run := noise{app: a}
	for _, r := range found {
		if now := instanceOf(r); now != last {
			last = now
			if err := cmp.Or(run.print(), a.teamLine(last)); err != nil {
				return err
			}
		}
		if fold && run.add(r) {
			continue
		}
		if err := run.print(); err != nil {
			return err
		}
		if err := a.printRecord(r); err != nil {
			return err
		}
		fates := ""
		switch {
		case r.Relay != nil:
			fates = "    " + a.paint(dim, escape(view.FateText(r.Relay), false)) + "\n"
		case r.Receipt != nil && (r.Receipt.State == api.Lost || r.Receipt.State == api.Unknown):
			fates = "    " + a.paint(yellow, escape(r.Receipt.Word+": "+r.Receipt.Why, false)) + "\n"
		}
		if err := a.print([]byte(fates)); err != nil {
			return err
		}
	}
	return run.print()
}

// teamLine prints a team as the heading of the messages below.
func (c *console) teamLine(i teams.Instance) error {
	made := ""
	if i.CreatedAt > ledger.SessionTeamCreated {
		made = ", made " + time.UnixMilli(i.CreatedAt).Local().Format("2006-01-02 15:04:05")
	}
	return c.printf("%s\n", c.paint(bold, "team "+escape(i.Team, false)+made))
}

func newSearch(a *app) *cobra.Command {
	var o historyOptions
	cmd := &cobra.Command{
		Use:   "search WORDS...",
		Short: "Search the messages in the journal",
		Long: `Print the messages and the work of agents in the journal that contain all of the
words, newest last.

The words are searched in sender, summary and text, without regard to case and
accents. "words in quotes" must stand together; word* matches the beginning of
a word.

Exit status: 0, even if nothing matches; 2 there is nothing to search for.`,
		Example: `  teambridge search build 'fail*' --from worker`,
		Args:    between(1, -1),
		RunE:    func(cmd *cobra.Command, args []string) error { return printRecorded(cmd.Context(), a, args, o) },
	}
	o.flags(a, cmd, 20)
	return cmd
}

func newExport(a *app) *cobra.Command {
	var o historyOptions
	var output string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the journal as NDJSON",
		Long: `Print every message in the journal, oldest first, one JSON object per line.

Each object has a message as it was in the inbox, an event of a relay, or an
envelope, which is an event of an agent. On standard output, characters that
could control a terminal are \u escapes; in a file, they are unchanged. With
--output, the file is replaced once all of it is written and on the disk; if the
disk is full, or the command is interrupted, the old file stays. A new file is
readable only by you.

Exit status: 0; 1 it could not be read or written completely; 5 --output is not
a regular file.`,
		Example: `  teambridge export --team myteam --output myteam.ndjson`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return export(cmd.Context(), a, o, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this file instead of stdout")
	o.selectionFlags(a, cmd)
	return cmd
}

func export(ctx context.Context, a *app, o historyOptions, output string) error {
	q, err := o.query(a)
	if err != nil {
		return err
	}
	export := func(w io.Writer) error { return o.noSuchSince(a.local().Export(ctx, w, q)) }
	if output == "" {
		if file, ok := a.out.W.(*os.File); ok {
			if info, err := file.Stat(); err == nil && info.Mode().IsRegular() { // on a pager, the progress line would appear in the middle of the text
				defer a.working("exporting")()
			}
		}
		return export(plain.JSONWriter{W: a.stdout})
	}
	defer a.working("exporting to %s", output)()
	return exportTo(output, export)
}

// exportTo replaces the file at path, or the file that a symbolic link there points to.
func exportTo(path string, write func(io.Writer) error) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return refuse("omit --output and redirect stdout", "%s is not a regular file", path)
	}
	err := atomicfile.Replace(path, func(w io.Writer) error {
		buffered := bufio.NewWriter(w)
		if err := write(buffered); err != nil {
			return err
		}
		return buffered.Flush()
	})
	if err != nil {
		return fmt.Errorf("export to %s: %w", path, err)
	}
	return nil
}

type gcOptions struct {
	olderThan     time.Duration
	workOlderThan time.Duration
	maxMiB        int64
}

func newGC(a *app) *cobra.Command {
	o := gcOptions{olderThan: 90 * 24 * time.Hour, workOlderThan: server.KeepWork, maxMiB: 512}
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Delete old messages from the journal and the ledger",
		Long: `Delete old messages from the journal, and old ids from the ledger.

Messages older than --older-than are deleted, and work of agents older than
--work-older-than, which the service also deletes. If the journal and the ledger
together are still larger than --max-size, the oldest entries of both are
deleted, and in the journal work before messages. Deleted entries are
overwritten in the files, and their space is freed, unless a process is reading
the files; the next gc then does that. The first gc after an upgrade from a
version that did neither rewrites both files: meanwhile, nothing can be sent or
recorded, for about a second per 100 MiB. A message that was deleted and is sent
again under its --id is a new message. Messages on their way are kept. Copies of
earlier inbox contents, and leftovers of teams that a killed teambridge was
creating or removing, are deleted as well.

Exit status: 0.`,
		Example: `  teambridge gc --older-than 30d`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return collectGarbage(cmd.Context(), a, o) },
	}
	durationFlag(cmd, &o.olderThan, "older-than", o.olderThan, "delete messages older than this")
	durationFlag(cmd, &o.workOlderThan, "work-older-than", o.workOlderThan, "delete work of agents that is older than this")
	cmd.Flags().Int64Var(&o.maxMiB, "max-size", o.maxMiB, "largest size of journal and ledger in MiB; 0 is no limit")
	return cmd
}

type collected struct {
	Messages     int64 `json:"messages"`    // removed from the journal
	Sends        int64 `json:"sends"`       // removed from the ledger
	Bytes        int64 `json:"bytes"`       // size of the journal now
	Envelopes    int64 `json:"envelopes"`   // work of agents, removed from the journal
	BytesBefore  int64 `json:"bytesBefore"` // size of the journal
	Ledger       int64 `json:"ledger"`      // size of the ledger now, in bytes
	LedgerBefore int64 `json:"ledgerBefore"`
}

func collectGarbage(ctx context.Context, a *app, o gcOptions) error {
	if o.maxMiB < 0 {
		return usage("", "--max-size %d is negative", o.maxMiB)
	}
	before := time.Now().Add(-o.olderThan)
	defer a.working("deleting old messages")()
	j, err := a.local().OpenJournal(ctx)
	if err != nil {
		return err
	}
	l, err := a.ledger(ctx)
	if err != nil {
		return err
	}
	var c collected
	if c.BytesBefore, c.LedgerBefore, err = sizes(ctx, j, l); err != nil {
		return err
	}
	a.local().Refresh(ctx, j, journal.Query{})
	worked, err := j.PruneEnvelopes(ctx, time.Now().Add(-o.workOlderThan))
	if err != nil {
		return err
	}
	pruned, err := j.Prune(ctx, before, 0)
	if err == nil {
		c.Sends, err = l.Prune(ctx, before)
	}
	if err == nil {
		_, err = l.GiveBack(ctx)
	}
	if err == nil {
		c.Bytes, c.Ledger, err = sizes(ctx, j, l)
	}
	if err != nil {
		return err
	}
	if most, both := o.maxMiB<<20, c.Bytes+c.Ledger; most > 0 && both > most {
		// Both shrink by the same factor.
		share := float64(most) / float64(both)
		more, err := j.Prune(ctx, before, max(int64(float64(c.Bytes)*share), 1))
		if err != nil {
			return err
		}
		pruned.Messages, pruned.Envelopes = pruned.Messages+more.Messages, pruned.Envelopes+more.Envelopes
		n, err := l.PruneTo(ctx, int64(float64(c.Ledger)*share))
		if c.Sends += n; err != nil {
			return err
		}
		if c.Bytes, c.Ledger, err = sizes(ctx, j, l); err != nil {
			return err
		}
	}
	c.Messages, c.Envelopes = pruned.Messages, pruned.Envelopes+worked.Envelopes
	if err := lockedfile.Sweep(filepath.Join(a.state, "locks")); err != nil {
		return err
	}
	root, err := a.root()
	if err == nil {
		err = root.Sweep()
	}
	if err != nil && !errors.As(err, new(*teams.NoRootError)) { // without a Claude directory there is nothing to sweep
		return err
	}
	inJournal, err := j.GiveBack(ctx)
	inLedger, lerr := l.GiveBack(ctx)
	if err := errors.Join(err, lerr); err != nil {
		return err
	}
	const mib = 1 << 20
	err = a.answer(c, "removed %s, %s and %s; the journal has %.1f MiB (before: %.1f), the ledger %.1f MiB (before: %.1f)\n",
		plural(int(c.Messages), "message"), plural(int(c.Envelopes), "step")+" of agents", plural(int(c.Sends), "id"),
		float64(c.Bytes)/mib, float64(c.BytesBefore)/mib, float64(c.Ledger)/mib, float64(c.LedgerBefore)/mib)
	if err == nil && !(inJournal && inLedger) {
		err = fmt.Errorf("gc: the text of what was removed is still in a -wal file in %s, since another process has been reading it for 2 s: %w", a.state, ledger.ErrBusy)
	}
	return err
}

func sizes(ctx context.Context, j *journal.Journal, l *ledger.Ledger) (inJournal, inLedger int64, err error) {
	if inJournal, err = j.Size(ctx); err == nil {
		inLedger, err = l.Size(ctx)
	}
	return inJournal, inLedger, err
}
