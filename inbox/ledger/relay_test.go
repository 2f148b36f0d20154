package ledger

var bob = Post{Root: "/home/ann/.claude", Team: "blue", CreatedAt: 1763280000000, Inbox: "bob"}

// aRow is a row of an inbox whose key and message id are made from its uuid.
func aRow(uuid string) Delivery {
	return Delivery{
		UUID: uuid, Post: bob, Key: "key of " + uuid, Occurrence: 1, ID: "id of " + uuid,
		From: "ann", Kind: "message", Raw: []byte(`{"from":"ann","text":"` + uuid + `"}`), At: monday,
	}
}

// anInput is what a person typed.
func anInput(uuid string) Delivery {
	return Delivery{
		UUID: uuid, Post: bob, From: "operator", Kind: "message", Raw: []byte("fix it"),
		Person: true, Isolated: true, Mode: []byte(`{"model":"sonnet"}`), At: monday,
	}
}

func aFrame(uuid string) Frame {
	return Frame{UUID: uuid, Post: bob, Kind: FrameMessage, Bytes: []byte(`{"uuid":"` + uuid + `"}`), Session: "session-1", At: monday}
}

func aNudge(uuid, parent string) Frame {
	f := aFrame(uuid)
	f.Kind, f.Parent = FrameNudge, parent
	return f
}

func aSession() Session {
	return Session{Post: bob, ID: "session-2", PID: 4711, Group: 4700, Start: "12345", Command: "claude -p", At: monday, Dead: "5 deaths"}
}
