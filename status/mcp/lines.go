package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"teambridge/teams/rawjson"
)

// lines is the input of a server, as a reader. It answers two kinds of lines with an error, and leaves them out: lines
// that are no message, for which the protocol's implementation would end the server, and lines that decoding would
// change silently (see [rawjson.Exact]).
type lines struct {
	in     *bufio.Reader
	refuse func(id json.RawMessage, code int, message string)
	rest   []byte // of the current line
	err    error  // the error to return after rest
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		var line []byte
		long := false
		for {
			part, err := l.in.ReadSlice('\n')
			if long = long || len(line)+len(part) > sdk.DefaultMaxLineLength; !long {
				line = append(line, part...)
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				l.err = err
				break
			}
		}
		switch line = bytes.TrimSpace(line); {
		case long:
			l.refuse(nil, -32600, "the line is too long")
		case len(line) == 0:
		case !json.Valid(line):
			l.refuse(nil, -32700, "the line is no JSON")
		case line[0] != '[' && !isMessage(line):
			l.refuse(nil, -32600, "the line is no message of JSON-RPC 2.0")
		default:
			if err := rawjson.Exact(line); err != nil {
				l.inexact(line, err)
			} else {
				l.rest = append(line, '\n')
			}
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// inexact refuses a line that decoding would change. If it is a notification, there is no answer.
func (l *lines) inexact(line []byte, why error) {
	var call struct{ ID json.RawMessage }
	if err := json.Unmarshal(line, &call); err == nil && len(call.ID) == 0 {
		return
	}
	if rawjson.Exact(call.ID) != nil {
		call.ID = nil
	}
	l.refuse(call.ID, -32602, fmt.Sprintf("nothing was done: %v", why))
}

func isMessage(line []byte) bool {
	_, err := jsonrpc.DecodeMessage(line)
	return err == nil
}

// output is a writer that several goroutines use, one whole message at a time.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

// Close does nothing: the output belongs to the caller.
func (o *output) Close() error { return nil }

// refuse answers a refused message with an error. id is nil if it is unknown.
func (o *output) refuse(id json.RawMessage, code int, message string) {
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message}})
	if err == nil {
		_, _ = o.Write(append(data, '\n')) // if nobody reads it, the next answer fails
	}
}
