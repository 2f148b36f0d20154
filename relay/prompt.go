package relay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/mode"
)

// Input is a user prompt: a person's message to the agent. Only Text is required.
type Input struct {
	Text string
	Mode mode.Mode // the agent's mode from this message on
	// Isolated sends it in a frame of its own. A command, which is a text that begins with "/", always is.
	Isolated bool

	ID       string // of the message, unique among all messages to the inbox; empty for the delivery's id
	Protocol bool   // Text may be an object of Claude Code's team protocol

	// The history shows these; the agent gets only the text. An empty From is the user at the keyboard. DefaultFrom
	// is as in [inbox.Message].
	From, Summary, Color string
	DefaultFrom          bool
}

// digest distinguishes inputs with the same ID, as [inbox.Message.Digest] does. A plain input has the digest
// of an inbox message with the same text.
func (in *Input) digest(mode []byte) [32]byte {
	m := inbox.Message{From: in.From, DefaultFrom: in.DefaultFrom, Text: in.Text, Summary: in.Summary, Color: in.Color}
	sum := m.Digest()
	if len(mode) > 0 || in.Isolated {
		sum = sha256.Sum256([]byte(string(sum[:]) + strconv.FormatBool(in.Isolated) + string(mode)))
	}
	return sum
}

// PromptResult is the result of sending an [Input].
type PromptResult struct {
	Delivery string // its id
	ID       string // of the message
	Again    bool   // it was sent before under the same ID
}

// Prompt puts a user prompt into the queue of an inbox, ahead of all waiting rows. It is committed when
// Prompt returns, and reaches the agent unchanged, as plain text or a command. If no relay runs, the next one
// sends it.
//
// A text that is an object of Claude Code's team protocol is refused with an *[inbox.ProtocolError], unless
// in.Protocol is set. A prompt that is submitted twice with one ID is sent once. [ledger.ErrConflict]: the ID
// belongs to another message. [ledger.ErrWritten]: the message was already written to the inbox file.
func Prompt(ctx context.Context, l *ledger.Ledger, p inbox.InboxKey, in Input) (PromptResult, error) {
	results, err := Prompts(ctx, l, p, in)
	if err != nil {
		return PromptResult{}, err
	}
	return results[0], nil
}

// Prompts is [Prompt] for several prompts, in order, all or none.
func Prompts(ctx context.Context, l *ledger.Ledger, p inbox.InboxKey, ins ...Input) ([]PromptResult, error) {
	prompts := make([]ledger.Prompt, len(ins))
	for i, in := range ins {
		d, err := in.delivery(p)
		if err != nil {
			return nil, err
		}
		prompts[i] = ledger.Prompt{Delivery: d, Digest: in.digest(d.Mode)}
	}
	added, err := l.Deliveries.AddPrompts(ctx, prompts...)
	if err != nil {
		return nil, err
	}
	results := make([]PromptResult, len(added))
	for i, a := range added {
		results[i] = PromptResult{Delivery: prompts[i].UUID, ID: prompts[i].ID, Again: a.Again}
	}
	return results, nil
}

// delivery converts the prompt to a ledger record.
func (in *Input) delivery(p inbox.InboxKey) (ledger.Delivery, error) {
	if strings.TrimSpace(in.Text) == "" {
		return ledger.Delivery{}, fmt.Errorf("relay: say to %s: the text is blank", p.Inbox)
	}
	// Encoding would change such a text.
	if !utf8.ValidString(in.Text) || !utf8.ValidString(in.Summary) {
		return ledger.Delivery{}, fmt.Errorf("relay: say to %s: %w", p.Inbox, &inbox.InvalidError{Field: "text", Reason: "is not valid UTF-8"})
	}
	if kind := inbox.ProtocolType(in.Text); kind != "" && !in.Protocol {
		return ledger.Delivery{}, fmt.Errorf("relay: say to %s: %w", p.Inbox, &inbox.ProtocolError{Type: kind})
	}
	d := ledger.Delivery{
		UUID: uuid.NewString(), InboxKey: p, Raw: []byte(in.Text), Person: true, Kind: "message",
		Isolated: in.Isolated || strings.HasPrefix(in.Text, "/"), Marked: true, State: ledger.Claimed, At: time.Now(),
		ID: in.ID, From: in.From, Summary: in.Summary, Color: in.Color,
	}
	if in.ID == "" {
		d.ID = d.UUID
	} else {
		d.UUID = ledger.DeriveID(ledger.RelayIDs, "said", p.Identity(), in.ID)
	}
	if in.Mode != (mode.Mode{}) {
		var err error
		if d.Mode, err = in.Mode.MarshalJSON(); err != nil {
			return ledger.Delivery{}, err
		}
	}
	return d, nil
}

// Prompt calls the function [Prompt] for this relay's inbox.
func (r *Relay) Prompt(ctx context.Context, in Input) (PromptResult, error) {
	result, err := Prompt(ctx, r.opts.Ledger, r.post, in)
	return result, r.added(err)
}

// Prompts calls the function [Prompts] for this relay's inbox.
func (r *Relay) Prompts(ctx context.Context, ins ...Input) ([]PromptResult, error) {
	results, err := Prompts(ctx, r.opts.Ledger, r.post, ins...)
	return results, r.added(err)
}

func (r *Relay) added(err error) error {
	if err == nil {
		r.opts.Recorded()
		r.poke()
	}
	return err
}
