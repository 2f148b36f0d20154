package relay

import (
	"context"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/opencode"
)

// OpenCode returns the runtime of OpenCode.
func OpenCode(options opencode.Options) Runtime { return openCode{opencode.New(options)} }

type openCode struct{ *opencode.Runtime }

func (r openCode) Command() string             { return r.Options().CommandLine() }
func (r openCode) Session() string             { return r.Options().Session }
func (openCode) Unnamed(m mode.Mode) mode.Mode { return m }
func (openCode) MayPoll() bool                 { return false }
func (openCode) SendsMessages() bool           { return false }

func (openCode) Encode(uuid, text string) ([]byte, error) { return opencode.Encode(uuid, text) }

func (openCode) Frame(line []byte) (agent.Frame, error) {
	_, err := opencode.ParseFrame(line)
	return agent.Frame{Line: line}, err
}

func (r openCode) Start(ctx context.Context, session string, mode mode.Mode) (Agent, error) {
	a, err := r.Runtime.Start(ctx, session, mode)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (r openCode) Predecessor(p agent.Process) Predecessor { return r.Runtime.Predecessor(p) }
