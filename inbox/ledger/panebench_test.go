package ledger

import "testing"

// BenchmarkOpenPaneMessages measures what a service asks each second, with many messages that have ended: 0.1 ms.
func BenchmarkOpenPaneMessages(b *testing.B) {
	l := newLedger(b)
	p := mustAddPane(b, l, "worker", 1)
	for _, script := range []string{
		`WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n<50000)
		INSERT INTO deliveries (uuid, inbox_id, key, occurrence, id, sender, kind, person, isolated, marked, frame, state, reason, at, summary, color, hops, claimed_at)
		SELECT 'u'||n, 1, '', 0, 'i'||n, 's', 'm', 1, 1, 1, '', 'done', '', n, '', '', 0, n FROM c`,
		`INSERT INTO contents (seq, mode, raw) SELECT seq, x'', x'41' FROM deliveries`,
		`INSERT INTO pane_messages (seq, policy, save_draft, notify, notify_to, since, tries, next_try, held, detail, held_since,
		sent_at, transcript, task, task_at, lost, notified, answer) SELECT seq, 'queued', 0, 1, 0, 1, 0, 0, '', '', 0, 1, '', 'ended', 1, '', 1, 0 FROM deliveries`,
	} {
		if err := run(l, script); err != nil {
			b.Fatal(err)
		}
	}
	put(b, l, aPaneMessage(p.InboxKey, "waits", "queued"))
	for b.Loop() {
		for _, list := range []func() ([]PaneMessage, error){
			func() ([]PaneMessage, error) { return l.PaneMessages.Open(b.Context(), paneRoot) },
			func() ([]PaneMessage, error) { return l.PaneMessages.List(b.Context(), p.InboxKey) },
			func() ([]PaneMessage, error) { return l.PaneMessages.EndedTasks(b.Context(), paneRoot) },
		} {
			if _, err := list(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
