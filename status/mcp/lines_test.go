package mcp

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// A line that is no message gets an answer, and the server goes on.
func TestLineThatIsNoMessage(t *testing.T) {
	t.Parallel()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Serve(t.Context(), in, out, Options{Version: "test", Rest: func() {}})
		_ = out.Close()
	}()
	answers := bufio.NewScanner(fromServer)
	ask := func(line string) (answer struct {
		ID    *int
		Error *struct{ Code int }
	}) {
		t.Helper()
		if _, err := io.WriteString(toServer, line); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("after %.40q the server has ended: %v", line, answers.Err())
		}
		if err := json.Unmarshal(answers.Bytes(), &answer); err != nil {
			t.Fatalf("%v in %s", err, answers.Bytes())
		}
		return answer
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n")
	for line, code := range map[string]int{
		"Debugger attached.\n":             -32700,
		"\n \r\n\"\x00\n":                  -32700,
		`{"jsonrpc":"2.0","id":7,` + "\n":  -32700,
		`{"id":7,"method":"ping"}` + "\n":  -32600,
		`{"jsonrpc":"2.0"}` + "\r\n":       -32600,
		"7\n":                              -32600,
		strings.Repeat("x", 70<<10) + "\n": -32700,
	} {
		if a := ask(line); a.ID != nil || a.Error == nil || a.Error.Code != code {
			t.Errorf("%.40q is answered with %+v, want the error %d", line, a, code)
		}
	}
	if a := ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\r\n"); a.ID == nil || *a.ID != 2 || a.Error != nil {
		t.Errorf("then a message is answered with %+v", a)
	}
	_ = toServer.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
