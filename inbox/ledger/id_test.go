package ledger

import (
	"teambridge/inbox"
	"testing"
)

// Derived ids never change, since databases, inboxes and transcripts have them.
func TestDeriveID(t *testing.T) {
	t.Parallel()
	name := inbox.InboxKey{Root: "/r", Team: "t", CreatedAt: 5, Inbox: "bob"}.Identity()
	for got, want := range map[string]string{
		DeriveID(PaneIDs, "pane", name, "m-1"):             "dddc5f58-761a-5001-bcb5-4b7db7ce8817",
		DeriveID(PaneIDs, "said", "/r", "bob", "s", "m-1"): "5daf40b4-409b-5fc3-b110-9029fc4cd89a",
		DeriveID(ReplyIDs, "f-1", "lead"):                  "4e94c427-882f-58eb-b8dd-3fbd6e550801",
		DeriveID(RelayIDs, name, "key", "2"):               "3e019a12-c772-563b-8aa6-d0625ffa5c17",
		DeriveID(RelayIDs, "run", name):                    "5989c118-7ea1-52ab-be24-201f31e7c48f",
	} {
		if got != want {
			t.Errorf("the id is %s, and was %s", got, want)
		}
	}
}
