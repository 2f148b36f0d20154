package probe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"teambridge/relay/relaytest/model"
	"teambridge/teams/transcript"
)

// The system prompts of the first process of a session, and of the process that resumes it.
const (
	firstPrompt  = "PROBE-SYSTEM-FIRST"
	secondPrompt = "PROBE-SYSTEM-SECOND"
)

// headless measures sessions that use stream-json.
func (b *bench) headless() error {
	session, first := uuid.NewString(), uuid.NewString()
	err := b.inSession(b.fresh(&session, first), "--session-id", session, "--append-system-prompt", firstPrompt)
	if err == nil {
		err = b.inSession(b.resumed(session, first), "--resume", session, "--append-system-prompt", secondPrompt)
	}
	if err := b.member(); err != nil {
		b.cannot(err, "MemberDeaf", "MemberSends")
	}
	return err
}

// inSession starts a headless process, and ends it after do.
func (b *bench) inSession(do func(p *model.Headless) error, args ...string) error {
	p, err := model.StartHeadless(b.o.Command, b.home, args...)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), b.o.grace)
		defer cancel()
		if b.ctx.Err() != nil {
			cancel()
		}
		p.Close(ctx)
	}()
	return do(p)
}

// frame waits for a line in the process's output.
func (b *bench) frame(p *model.Headless, what string, match func(model.Frame) bool) (model.Frame, error) {
	ctx, cancel := context.WithTimeoutCause(b.ctx, b.o.Step, fmt.Errorf("it did not come within %s", b.o.Step))
	defer cancel()
	f, err := p.Await(ctx, what, match)
	if ctx.Err() != nil {
		return f, fmt.Errorf("waited for %s of a headless session: %w", what, context.Cause(ctx))
	}
	return f, err
}

// turn writes a frame, and waits for a result after the model has received the text.
func (b *bench) turn(p *model.Headless, id, text string) error {
	began := p.Count()
	if err := p.SendAs(id, text); err != nil {
		return err
	}
	marker, _, _ := strings.Cut(text, "\n")
	if _, err := b.asked(b.patience("starts", b.o.Step), model.Any, marker); err != nil {
		return fmt.Errorf("%w; the session printed: %s", err, last(p))
	}
	n := 0
	_, err := b.frame(p, "the result of a turn", func(f model.Frame) bool { n++; return n > began && f.Type == "result" })
	return err
}

// last returns the beginning of a session's last line of output, and the end of its stderr.
func last(p *model.Headless) string {
	var line []byte
	if all := p.Frames(); len(all) > 0 {
		line = all[len(all)-1].Line
	}
	return strings.TrimSpace(fmt.Sprintf("%.200s %s", line, end(p.Stderr(), 200)))
}

// fresh measures a new session. It updates the id of the session.
func (b *bench) fresh(session *string, first string) func(*model.Headless) error {
	return func(p *model.Headless) error {
		b.o.Progress("frames")
		if err := b.turn(p, first, "PROBE-H1"); err != nil {
			return err
		}
		began, echo, init := -1, -1, -1
		for i, f := range p.Frames() {
			switch {
			case f.IsReplay && f.UUID == first:
				echo = i
				b.is("EchoesTime", f.Timestamp != "")
			case f.Subtype == "init" && init < 0:
				init = i
				b.is("KeepsID", f.SessionID == *session)
				*session = f.SessionID
			case f.Type == "command_lifecycle" && f.CommandUUID == first:
				began = i
			}
		}
		b.is("EchoesFrames", echo >= 0)
		b.is("Lifecycle", began >= 0)
		if echo < 0 {
			b.cannot(errors.New("the frame was not echoed"), "EchoesTime", "BeginsWithInit")
		} else {
			b.is("BeginsWithInit", init >= 0 && echo > init)
		}

		b.o.Progress("repeated frames")
		if err := p.SendAs(first, "PROBE-H2 again"); err != nil {
			return err
		}
		if err := b.turn(p, uuid.NewString(), "PROBE-H3"); err != nil {
			return err
		}
		b.is("RunsOnce", !b.given("PROBE-H2"))

		b.o.Progress("frames that wait")
		if err := b.joins(p); err != nil {
			b.cannot(err, "JoinsFrames")
			return err
		}
		b.o.Progress("interrupts")
		if err := b.interrupts(p); err != nil {
			b.cannot(err, "InterruptFails")
			return err
		}
		b.o.Progress("control requests")
		if answer, err := b.control(p, map[string]any{"subtype": "set_permission_mode", "mode": "probe"}); err != nil {
			b.cannot(err, "ChecksMode")
		} else {
			b.is("ChecksMode", answer.Subtype == "error")
		}
		if answer, err := b.control(p, map[string]any{"subtype": "set_permission_mode", "mode": "acceptEdits"}); err != nil {
			b.cannot(err, "SetsMode")
		} else if n := p.Count(); answer.Subtype == "success" {
			if err := b.turn(p, uuid.NewString(), "PROBE-H7"); err != nil {
				return err
			}
			b.is("SetsMode", slices.ContainsFunc(p.Frames()[n:], func(f model.Frame) bool {
				return f.Subtype == "init" && f.PermissionMode == "acceptEdits"
			}))
		} else {
			b.is("SetsMode", false)
		}

		b.o.Progress("transcript")
		ctx, cancel := context.WithTimeout(b.ctx, b.o.Step)
		defer cancel()
		if err := p.End(ctx); err != nil && ctx.Err() != nil {
			return fmt.Errorf("waited for the end of a headless session whose input was closed: %w", err)
		}
		b.is("RecordsFrames", b.records(*session, first))
		return nil
	}
}

// given reports whether the model has received a marker.
func (b *bench) given(marker string) bool {
	return slices.ContainsFunc(b.api.Log(), func(r model.Request) bool { return !r.Side && whole(r, marker) })
}

// joins measures whether two frames that wait for the end of a turn become one.
func (b *bench) joins(p *model.Headless) error {
	release, err := b.thinks(p, "PROBE-H4")
	if err == nil {
		_, err = p.Send("PROBE-H5A")
	}
	if err == nil {
		_, err = p.Send("PROBE-H5B")
	}
	if err != nil {
		release()
		return err
	}
	// The session has read the frames once it answers a request that was written after them.
	_, err = b.control(p, map[string]any{"subtype": "set_model", "model": "sonnet"})
	began := p.Count()
	release()
	if err != nil {
		return err
	}
	var one, two model.Request
	for marker, r := range map[string]*model.Request{"PROBE-H5A": &one, "PROBE-H5B": &two} {
		if *r, err = b.asked(b.o.Step, model.Main, marker); err != nil {
			return err
		}
	}
	b.is("JoinsFrames", one.Seq == two.Seq)
	return b.wait(b.o.Step, "the end of the turns that waited", func() bool {
		results := 0
		for _, f := range p.Frames()[began:] {
			if f.Type == "result" {
				results++
			}
		}
		if one.Seq == two.Seq {
			return results >= 2
		}
		return results >= 3
	})
}

// thinks begins a turn in which the model does not answer until release is called.
func (b *bench) thinks(p *model.Headless, marker string) (release func(), err error) {
	done := make(chan struct{})
	release = sync.OnceFunc(func() { close(done) })
	b.before(marker, func() {
		select {
		case <-done:
		case <-b.ctx.Done():
		}
	})
	if _, err := p.Send(marker); err != nil {
		return release, err
	}
	return release, b.wait(b.o.Step, "the call of the model with "+marker, func() bool { return b.given(marker) })
}

// interrupts measures an interrupt.
func (b *bench) interrupts(p *model.Headless) error {
	release, err := b.thinks(p, "PROBE-H6")
	defer release()
	if err == nil {
		_, err = b.control(p, map[string]any{"subtype": "set_model", "model": "sonnet"}) // it has now printed its earlier output
	}
	if err != nil {
		return err
	}
	n := p.Count()
	if _, err := b.control(p, map[string]any{"subtype": "interrupt"}); err != nil {
		return err
	}
	i := 0
	f, err := b.frame(p, "the result of an interrupted turn", func(f model.Frame) bool { i++; return i > n && f.Type == "result" })
	if err != nil {
		return err
	}
	b.is("InterruptFails", f.IsError)
	return nil
}

// answer is a session's answer to a control request.
type answer struct {
	Subtype string `json:"subtype"`
	ID      string `json:"request_id"`
}

// control makes a control request, and returns the session's answer.
func (b *bench) control(p *model.Headless, request map[string]any) (answer, error) {
	id := uuid.NewString()
	line, err := json.Marshal(map[string]any{"type": "control_request", "request_id": id, "request": request})
	if err != nil {
		return answer{}, err
	}
	if err := p.Write(line); err != nil {
		return answer{}, err
	}
	var said struct{ Response answer }
	_, err = b.frame(p, fmt.Sprintf("the answer to %s", request["subtype"]), func(f model.Frame) bool {
		return f.Type == "control_response" && json.Unmarshal(f.Line, &said) == nil && said.Response.ID == id
	})
	return said.Response, err
}

// records reports whether the transcript of a session has a frame, and then the end of a turn, with the
// version.
func (b *bench) records(session, frame string) bool {
	path, ok := transcript.Session(b.home.Root, b.home.Work, session)
	if !ok {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	asked := false
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r struct {
			Type, UUID, Version string
			Message             struct {
				StopReason string `json:"stop_reason"`
			}
		}
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		if r.UUID == frame && r.Type == "user" && r.Version != "" {
			asked = true
		}
		if asked && r.Type == "assistant" && r.Message.StopReason == "end_turn" {
			return true
		}
	}
	return false
}

// resumed measures a process that resumes the session.
func (b *bench) resumed(session, first string) func(*model.Headless) error {
	return func(p *model.Headless) error {
		b.o.Progress("a resumed session")
		if err := p.SendAs(first, "PROBE-R1 again"); err != nil {
			return err
		}
		if err := b.turn(p, uuid.NewString(), "PROBE-R2"); err != nil {
			return err
		}
		b.is("RunsOnceResumed", !b.given("PROBE-R1"))
		r, err := b.asked(b.o.Step, model.Main, "PROBE-R2")
		if err != nil {
			return err
		}
		switch first, second := strings.Contains(r.System, firstPrompt), strings.Contains(r.System, secondPrompt); {
		case first != second:
			b.is("KeepsSystemPrompt", first)
		default:
			b.cannot(fmt.Errorf("the system prompt has neither or both of two additions"), "KeepsSystemPrompt")
		}
		names := slices.ContainsFunc(transcript.Processes(b.home.Root), func(t transcript.Process) bool { return t.PID == p.Pid() && t.Session == session })
		b.is("NamesSession", names)

		b.o.Progress("the inbox of a headless lead")
		if err := b.teamOf("headless").make(session, "team-lead"); err != nil {
			return err
		}
		if err := b.teamOf("headless").push("team-lead", row{From: "user", Text: "PROBE-R4"}); err != nil {
			return err
		}
		b.is("HeadlessDeaf", !b.hears("HeadlessDeaf", false, func() bool { return b.given("PROBE-R4") }))
		return nil
	}
}

// member measures a headless member of a team, started as a relay starts it.
func (b *bench) member() error {
	b.o.Progress("a headless member")
	t := b.teamOf("relayed")
	if err := t.make(uuid.NewString(), "team-lead", "bob", "operator"); err != nil {
		return err
	}
	if err := t.push("bob", row{From: "operator", Text: "PROBE-M1"}); err != nil {
		return err
	}
	return b.inSession(func(p *model.Headless) error {
		send := model.CallLine("SendMessage", map[string]string{"to": "operator", "message": "PROBE-M3", "summary": "s"})
		if err := b.turn(p, uuid.NewString(), "PROBE-M2\n"+send); err != nil {
			return err
		}
		b.is("MemberSends", b.hears("MemberSends", true, func() bool { return t.has("operator", "PROBE-M3") }))
		b.is("MemberDeaf", !b.hears("MemberDeaf", false, func() bool { return b.given("PROBE-M1") || !t.has("bob", "PROBE-M1") }))
		return nil
	}, "--agent-id", "bob@relayed", "--agent-name", "bob", "--team-name", "relayed")
}

// lines decodes the lines of a file, and skips lines that are not JSON.
func lines[T any](path string) (all []T) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(data) {
		var v T
		if json.Unmarshal(line, &v) == nil {
			all = append(all, v)
		}
	}
	return all
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
