package mcp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"teambridge/teams/rawjson"
)

// exact is the input and the output of a server. A line that decoding would change (see [rawjson.Exact]) is answered with an
// error, and not read: the SDK would take the changed one.
type exact struct {
	in   *bufio.Reader
	line []byte // what is left of the last one
	end  error

	mu  sync.Mutex // an answer of the SDK is one write
	out io.Writer
}

func newExact(in io.Reader, out io.Writer) *exact { return &exact{in: bufio.NewReader(in), out: out} }

func (e *exact) Read(p []byte) (int, error) {
	for len(e.line) == 0 {
		if e.end != nil {
			return 0, e.end
		}
		if err := e.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, e.line)
	e.line = e.line[n:]
	return n, nil
}

// next reads a line. Of one that is too long, the SDK gets the beginning, and ends.
func (e *exact) next() error {
	e.line = nil
	for len(e.line) <= sdk.DefaultMaxLineLength {
		part, err := e.in.ReadSlice('\n')
		e.line = append(e.line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		e.end = err
		break
	}
	inexact := rawjson.Exact(e.line)
	if inexact == nil {
		return nil
	}
	var call struct{ ID json.RawMessage }
	err := json.Unmarshal(e.line, &call)
	if e.line = nil; err == nil && len(call.ID) == 0 {
		return nil // a notification has no answer
	}
	if rawjson.Exact(call.ID) != nil {
		call.ID = nil
	}
	answer, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": call.ID, "error": map[string]any{"code": -32602, "message": fmt.Sprintf("nothing was done: %v", inexact)},
	})
	if err == nil {
		_, err = e.Write(append(answer, '\n'))
	}
	return err
}

func (e *exact) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.out.Write(p)
}
