// Package query sends a prompt to an agent and yields the events of its turn. It needs no team: a query
// starts an agent, or reuses a running one.
//
//	client := query.New(query.Options{})
//	defer client.Close()
//	for event, err := range client.Query(ctx, query.Input{Prompt: "What is 2 + 2?"}, nil) {
//		if err != nil {
//			return err
//		}
//		if event.Result != nil {
//			fmt.Println(event.Result.Text)
//		}
//	}
//
// # Events
//
// Each event is one of three things: an envelope of the session protocol, with input or output of the agent;
// an error; or, last and exactly once, the result. The error of the pair with the result is nil if each turn
// was completed. All other pairs have a nil error. If the caller leaves the loop early, the turn is
// interrupted and the agent ends.
//
// # Sessions
//
// The result names the session. A later [Input] with that SessionID, in the same directory, continues it, in
// this process or another one. A session must not be used by two processes, or two clients, at the same time;
// a client uses it until the client is closed. Two queries of one [Client] wait for each other.
//
// # Permissions
//
// An agent runs in the permission mode that the input asks for, and in "default" if it asks for none,
// whatever the agent's settings say. It gets the mode bypassPermissions only on request. Tool uses that the
// mode leaves open are denied, with a reason for the agent, unless [Input].Tools lists the tool.
//
// # What is not promised
//
// Queries are not recorded. If this process is killed, its agent finishes the turn if it can, and the answer
// is only in the session; on Linux, OpenCode's server is killed, too. Messages that the agent has not
// received are lost.
package query
