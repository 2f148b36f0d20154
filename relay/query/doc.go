// Package query asks an agent something, and tells what it says and does until it is done.
// It needs no team: a query starts an agent, or uses one that runs, gives it a prompt, and
// follows its turn.
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
// Each event has one of three things: an envelope of the session protocol, for all that the
// agent is told, says and does; an error; or, last and exactly once, the result. The error of
// the pair with the result is nil if each turn was completed. All other pairs have a nil
// error. If the loop is left early, the turn is interrupted and the agent ends.
//
// # Sessions
//
// The result names the session. A later [Input] with that SessionID, in the same directory,
// continues it, in this process or another one. Two processes, or two clients, must not
// use a session at the same time; a client uses it until it is closed. Two queries of one
// [Client] wait for each other.
//
// # Permissions
//
// An agent runs in the permission mode that the input asks for, and in "default" if it asks
// for none, whatever the agent's settings say. It has the mode bypassPermissions only if
// that is asked for. What the mode leaves open is denied, with a reason that the agent can
// read, unless [Input].Tools has the tool.
//
// # What is not promised
//
// A query is not recorded. If this process is killed, its agent finishes the turn, if it can,
// and nobody learns its answer but the session; OpenCode's server is killed too, on Linux.
// Messages that the agent did not get are lost.
package query
