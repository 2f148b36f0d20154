package nats

import (
	"fmt"
	"strings"
)

const (
	// Stream has all queues of a hub.
	Stream = "TB"
	// Group is the only group of a consumer, which is pinned to one client.
	Group = "one"
	// MaxPayload is the size of the largest message that a hub takes.
	MaxPayload = 1 << 20
)

// Permissions returns the subjects that a machine may publish to and subscribe to: it writes in
// its own name, and reads, acknowledges, resets and takes over its own queue.
func Permissions(name string) (publish, subscribe []string) {
	publish = []string{"tb.m.*." + name, "tb.p.*." + name, "$JS.ACK." + Stream + "." + name + ".>"}
	for _, what := range consumerAPI {
		publish = append(publish, asks(what, name))
	}
	return publish, []string{inbox(name) + ".>", "tb.p." + name + ".*"}
}

// consumerAPI is what a machine asks about its queue.
var consumerAPI = []string{"INFO", "NEXT", "RESET", "UNPIN"}

// asks returns the subject for a machine's request. It is not one of JetStream's: on those the server usually
// answered that JetStream is not enabled for the account of the machines (nats-server 2.15.2).
func asks(what, name string) string { return "tb.q." + what + "." + name }

// Accounts returns the accounts section of a server's configuration, in its own language: HUB,
// which has the stream, with the users admin, and MACHINES with the users machines.
//
// Permissions alone are not enough. A server answers wherever the reply subject says, with the
// rights of the account, and a pull without a message is answered with an empty body. So in one
// account a machine that asks for its next message with the reply subject
// $JS.API.STREAM.DELETE.TB deletes the stream, with all queues. What machines may reach is
// therefore a service of another account, and no answer gets there.
func Accounts(admin, machines string) string {
	exports, imports := "", ""
	service := func(here, there, more string) {
		exports += fmt.Sprintf("      {service: %q%s}\n", there, more)
		imports += fmt.Sprintf("      {service: {account: HUB, subject: %q}, to: %q}\n", there, here)
	}
	for _, same := range []string{"tb.m.*.*", "$JS.ACK." + Stream + ".*.>"} {
		service(same, same, "")
	}
	for _, what := range consumerAPI {
		there, more := what, ""
		if what == "NEXT" {
			there, more = "MSG.NEXT", ", response: stream"
		}
		service(asks(what, "*"), "$JS.API.CONSUMER."+there+"."+Stream+".*", more)
	}
	return fmt.Sprintf(`  HUB: {
    jetstream: enabled
    exports: [
%s    ]
    users: [
%s    ]
  }
  MACHINES: {
    imports: [
%s    ]
    users: [
%s    ]
  }
`, exports, admin, imports, machines)
}

// User returns a machine as one of the users of [Accounts].
func User(c Card) string {
	publish, subscribe := Permissions(c.Name)
	return fmt.Sprintf("      {nkey: %s, permissions: {publish: {allow: [%s]}, subscribe: {allow: [%s]}}}\n", c.Key, quoted(publish), quoted(subscribe))
}

func quoted(subjects []string) string { return `"` + strings.Join(subjects, `", "`) + `"` }

func inbox(name string) string { return "_INBOX_" + name }
