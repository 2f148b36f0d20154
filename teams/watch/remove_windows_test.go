package watch

import (
	"os"
	"testing"
	"time"
)

// The directory of a watched team can be deleted. Without POSIX semantics of the file system, its name stays until
// the watcher has closed it, which follows the event: the deleting program may have to try again.
func TestATeamThatIsWatchedCanBeDeleted(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	w := start(t, New(Options{Root: p.root, sweep: time.Hour}))
	tries := 0
	for range 20 {
		p.mkdir("teams/a/inboxes")
		p.write(p.inbox("a/alice"), "[]")
		for e := next(t, w); e.Kind != Changed; e = next(t, w) {
		}
		start := time.Now()
		for {
			tries++
			err := os.RemoveAll(p.path("teams/a"))
			if _, e := os.Lstat(p.path("teams/a")); e != nil {
				break
			}
			if time.Since(start) > patience {
				t.Fatalf("not deleted: %v", err)
			}
			<-time.After(time.Millisecond)
		}
		for e := next(t, w); e.Kind != TeamGone; e = next(t, w) {
		}
	}
	t.Logf("%d attempts for 20 teams", tries)
}
