package transcript

import (
	"slices"
	"testing"
)

// A conversation that moved to the background is found by the process that shows it, its transcript, or its job.
func TestMoved(t *testing.T) {
	t.Parallel()
	const old, first, now = "aaaaaaaa-1", "bbbbbbbb-1", "cccccccc-1"
	const (
		viewer = `{"pid":1,"sessionId":"` + old + `","kind":"interactive","parkedJobId":"bbbbbbbb","name":"n"}`
		job    = `{"pid":2,"sessionId":"` + first + `","kind":"bg","jobId":"bbbbbbbb","name":"n"}`
		after  = `{"pid":4,"sessionId":"` + now + `","kind":"bg","jobId":"bbbbbbbb","name":"n"}` // /clear
		spare  = `{"pid":3,"sessionId":"dddddddd-1","kind":"bg","jobId":"dddddddd","spare":true}`
		moved  = `{"type":"user","sessionId":"` + old + `"}` + "\n" + `{"type":"continued-in","sessionId":"` + old + `","continuedInSessionId":"` + first + `"}` + "\n" + `{"type":"summary"}` + "\n"
		state  = `{"sessionId":"` + first + `","resumeSessionId":"` + now + `","state":"stopped"}`
	)
	const oldFile, firstFile, stateFile = "projects/-w/" + old + ".jsonl", "projects/-w/" + first + ".jsonl", "jobs/bbbbbbbb/state.json"
	for name, c := range map[string]struct {
		files   map[string]string
		from    string
		now     string
		job     string
		pid     int
		members []int
	}{
		"not moved":                 {map[string]string{"sessions/1.json": `{"pid":1,"sessionId":"` + old + `"}`}, old, old, "", 0, []int{1}},
		"shown":                     {map[string]string{"sessions/1.json": viewer, "sessions/2.json": job, "sessions/3.json": spare}, old, first, "bbbbbbbb", 2, []int{2}},
		"in the background":         {map[string]string{"sessions/2.json": job}, first, first, "bbbbbbbb", 2, []int{2}},
		"nobody shows it":           {map[string]string{oldFile: moved, "sessions/2.json": job}, old, first, "bbbbbbbb", 2, []int{2}},
		"cleared":                   {map[string]string{oldFile: moved, "sessions/4.json": after}, old, now, "bbbbbbbb", 4, []int{4}},
		"shown and stopped":         {map[string]string{"sessions/1.json": viewer, stateFile: state}, old, now, "bbbbbbbb", 0, nil},
		"its first id, cleared":     {map[string]string{"sessions/4.json": after}, first, now, "bbbbbbbb", 4, []int{4}},
		"its first id, stopped":     {map[string]string{stateFile: state}, first, now, "bbbbbbbb", 0, nil},
		"its last id, stopped":      {map[string]string{stateFile: state}, now, now, "bbbbbbbb", 0, nil},
		"resumed at a terminal":     {map[string]string{"sessions/1.json": `{"pid":1,"sessionId":"` + now + `"}`, stateFile: state}, now, now, "", 0, []int{1}},
		"stopped":                   {map[string]string{oldFile: moved}, old, first, "bbbbbbbb", 0, nil},
		"cleared and stopped":       {map[string]string{oldFile: moved, stateFile: state}, old, now, "bbbbbbbb", 0, nil},
		"a file that goes round":    {map[string]string{oldFile: moved, firstFile: `{"type":"continued-in","sessionId":"` + first + `","continuedInSessionId":"` + old + `"}` + "\n"}, old, first, "aaaaaaaa", 0, nil},
		"words of somebody else":    {map[string]string{oldFile: `{"type":"user","sessionId":"` + old + `","message":{"content":"{\"type\":\"continued-in\"}"}}` + "\n"}, old, old, "", 0, nil},
		"the key is no file's name": {map[string]string{"sessions/1.json": `{"pid":1,"sessionId":"` + old + `","parkedJobId":"../../x"}`}, old, old, "", 0, []int{1}},
	} {
		c2 := newClaude(t)
		for path, text := range c.files {
			c2.write(path, text)
		}
		now, job, in := Moved(c2.root, c.from, func(Process) bool { return true })
		if now != c.now || job != c.job || in.PID != c.pid {
			t.Errorf("%s: %s, %s, process %d; want %s, %s, %d", name, now, job, in.PID, c.now, c.job, c.pid)
		}
		var members []int
		for _, p := range Processes(c2.root) {
			members = append(members, p.PID)
		}
		if !slices.Equal(members, c.members) {
			t.Errorf("%s: sessions are in %d, want %d", name, members, c.members)
		}
	}
}
