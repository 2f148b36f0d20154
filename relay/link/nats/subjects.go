package nats

import (
	"fmt"
	"strings"
)

const (
	// Stream is the name of the stream, which holds all queues of a hub.
	Stream = "TB"
	// Group is the only group of a consumer, which is pinned to one client.
	Group = "one"
	// MaxPayload is the size of the largest message that a hub accepts.
	MaxPayload = 1 << 20
)

// Permissions returns the subjects that a machine may publish to and subscribe to. They let it write in its
// own name, and read, acknowledge, reset and take over its own queue.
func Permissions(name string) (publish, subscribe []string) {
	publish = []string{"tb.m.*." + name, "tb.p.*." + name, "$JS.ACK." + Stream + "." + name + ".>"}
	for _, what := range consumerAPI {
		publish = append(publish, asks(what, name))
	}
	return publish, []string{inbox(name) + ".>", "tb.p." + name + ".*"}
}

// consumerAPI lists the requests that a machine may make about its queue.
var consumerAPI = []string{"INFO", "NEXT", "RESET", "UNPIN"}

// asks returns the subject for a machine's request. JetStream's own subjects would not do: there the server
// usually answers that JetStream is not enabled for the account of the machines (nats-server 2.15.2).
func asks(what, name string) string { return "tb.q." + what + "." + name }

// Accounts returns the accounts section of a server's configuration, in its own language. HUB has the stream,
// and the users in admin; MACHINES has the users in machines.
//
// Permissions alone are not enough. A server sends an answer to any reply subject, with the rights of the
// account, and answers a pull without a message with an empty body. In a single account, a machine could
// request its next message with the reply subject $JS.API.STREAM.DELETE.TB, which would delete the stream
// with all queues. So the machines' requests are services of another account, and no answer reaches the
// subjects there.
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

// User returns a machine in the form of a user for [Accounts].
func User(c Card) string {
	publish, subscribe := Permissions(c.Name)
	return fmt.Sprintf("      {nkey: %s, permissions: {publish: {allow: [%s]}, subscribe: {allow: [%s]}}}\n", c.Key, quoted(publish), quoted(subscribe))
}

func quoted(subjects []string) string { return `"` + strings.Join(subjects, `", "`) + `"` }

func inbox(name string) string { return "_INBOX_" + name }
