package op

// All returns all operations.
func All() []Operation {
	return []Operation{
		&Health, &Document, &Version, &Target, &Teams, &EndedTeams, &Team, &Members, &Status, &Join, &Leave, &Sessions, &Rename,
		&AllAgents, &Send, &SendPayloads, &Broadcast, &Await, &Receipt, &Ask, &Reply, &Wait, &Read, &MarkRead, &Messages, &History,
		&Transcript, &SessionTranscript, &Changes, &SessionChanges, &Tasks, &TaskHistory, &Usage, &Events, &Attention,
		&Inbox, &Dismiss, &Doctor, &Fix, &Relays, &AddRelay, &Relay, &RemoveRelay, &Interrupt, &RetryRelay, &Hold,
		&Release, &Questions, &Question, &AnswerQuestion, &Deliveries, &RetryDelivery,
		&DropDelivery, &Envelopes, &EnvelopeEvents, &Move, &Panes, &AddPane, &Pane, &TestPane, &RemovePane, &Links, &SetLink, &AddMachine,
		&RemoveMachine, &ShareTeam, &SignIn,
	}
}
