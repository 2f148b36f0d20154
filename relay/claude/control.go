package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/teams/rawjson"
)

// Interrupt stops the turn of a frame. Nil means that the process has accepted the request; the frame becomes
// Cancelled a moment later, unless its turn ended first. It cannot hit another frame, because the process
// handles its input in order. Errors: [agent.ErrNotInFlight], those of [Process.Send], [ErrNoAnswer] and
// [agent.ErrRefused].
func (p *Process) Interrupt(ctx context.Context, uuid string) error {
	_, err := p.control(ctx, request{Subtype: "interrupt"}, func() error {
		p.folding.Lock()
		defer p.folding.Unlock()
		if !p.fold.State(uuid).InFlight() {
			return fmt.Errorf("claude: interrupt %s: %w", uuid, agent.ErrNotInFlight)
		}
		p.fold.Interrupted(uuid)
		return nil
	})
	return err
}

// SetMode changes the model and the permission mode, and returns the resulting mode.
func (p *Process) SetMode(ctx context.Context, from, to mode.Mode) (mode.Mode, error) {
	if model, ok := to.Model.Value(); ok && to.Model != from.Model {
		if _, err := p.SetModel(ctx, model); err != nil {
			return from, fmt.Errorf("change the model: %w", err)
		}
		from.Model = to.Model
	}
	if mode, ok := to.PermissionMode.Value(); ok && to.PermissionMode != from.PermissionMode {
		if err := p.SetPermissionMode(ctx, mode); err != nil {
			return from, fmt.Errorf("change the permission mode: %w", err)
		}
	}
	return to, nil
}

// SetModel changes the model from the next turn on, and returns the model's name in the process; versions
// before 2.1.310 report none. Frames wait for the answer.
func (p *Process) SetModel(ctx context.Context, model string) (string, error) {
	if model == "" {
		return "", fmt.Errorf("claude: set model: %w: empty", ErrInvalid)
	}
	body, err := p.set(ctx, request{Subtype: "set_model", Model: model})
	var answer struct {
		Model string `json:"model"`
	}
	if err == nil && len(body) > 0 {
		// A body is optional.
		_ = json.Unmarshal(body, &answer)
	}
	return answer.Model, err
}

// SetPermissionMode changes the permission mode from the next turn on. Frames wait for the answer. An unknown
// mode is refused with an [agent.ErrRefused] that lists the known ones. Plan mode that is set this way may
// not be secure, see [Options.NeedsRestart].
func (p *Process) SetPermissionMode(ctx context.Context, mode string) error {
	if mode == "" {
		return fmt.Errorf("claude: set permission mode: %w: empty", ErrInvalid)
	}
	_, err := p.set(ctx, request{Subtype: "set_permission_mode", Mode: mode})
	return err
}

// set sends a control request that must be answered before the next frame.
func (p *Process) set(ctx context.Context, r request) (json.RawMessage, error) {
	if err := p.settle(ctx, r.Subtype); err != nil {
		return nil, err
	}
	defer func() { <-p.settings }()
	return p.control(ctx, r, nil)
}

// settle acquires p.settings for an action.
func (p *Process) settle(ctx context.Context, action string) error {
	select {
	case p.settings <- struct{}{}:
		return nil
	case <-p.child.Gone():
		return fmt.Errorf("claude: %s: %w", action, ErrEnded)
	case <-ctx.Done():
		return fmt.Errorf("claude: %s: nothing was written: %w", action, context.Cause(ctx))
	}
}

type request struct {
	Subtype string `json:"subtype"`
	Model   string `json:"model,omitempty"`
	Mode    string `json:"mode,omitempty"`
}

// control writes a request and waits for the answer. check is called right before the first byte is written.
func (p *Process) control(ctx context.Context, r request, check func() error) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.options.AnswerTimeout, ErrNoAnswer)
	defer cancel()
	answer := make(chan ControlResponse, 1)
	p.mu.Lock()
	p.number++
	id := "teambridge-" + strconv.Itoa(p.number)
	p.pending[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pending, id)
	}()
	data, err := rawjson.Encode(map[string]any{"type": "control_request", "request_id": id, "request": r})
	if err != nil {
		return nil, fmt.Errorf("claude: %s: %w", r.Subtype, err)
	}
	err = p.in.send(ctx, &line{data: data, before: func() error {
		if check != nil {
			if err := check(); err != nil {
				return err
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if r.Subtype == "set_permission_mode" {
			p.permissions.setting[id] = r.Mode
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		if a.Error != "" {
			return nil, fmt.Errorf("claude: %s: %w: %s", r.Subtype, agent.ErrRefused, a.Error)
		}
		return a.Body, nil
	case <-p.done:
		// The remaining output may contain the answer.
		select {
		case a := <-answer:
			if a.Error == "" {
				return a.Body, nil
			}
		default:
		}
		return nil, fmt.Errorf("claude: %s: %w", r.Subtype, ErrEnded)
	case <-ctx.Done():
		return nil, fmt.Errorf("claude: %s: %w", r.Subtype, context.Cause(ctx))
	}
}

// answer answers a request of the process. It does not block: slow answers are made in the background.
func (p *Process) answer(r ControlRequest) {
	if r.Subtype != "can_use_tool" {
		p.reply(encodeAnswer(answerBody{Subtype: "error", RequestID: r.ID, Error: fmt.Sprintf("%.80q is not supported here", r.Subtype)}))
		return
	}
	p.mu.Lock()
	u := NewUse(r.Body, p.permissions.mode)
	p.mu.Unlock()
	policy := p.options.Permission
	decision, decided := policy.Decide(u)
	if writesPlan(u, r.Body, p.options.Root) {
		decision, decided = agent.Decision{Allow: true}, true
	}
	if u.Tool == "" {
		decision, decided = agent.Decision{Reason: "The question did not name a tool."}, true
	}
	if !decided {
		ctx, cancel := context.WithCancel(p.life)
		p.mu.Lock()
		_, twice := p.asked[r.ID]
		room := len(p.asked) < asking && !twice
		if room {
			p.asked[r.ID] = cancel
			p.asking.Add(1)
		}
		p.mu.Unlock()
		if room {
			go p.ask(ctx, cancel, r.ID, u)
			return
		}
		cancel()
		if twice {
			return // the person's answer is for both
		}
		decision = agent.Decision{Reason: "Too many questions are open already."}
	}
	p.decide(r.ID, u, decision)
}

// decide answers a permission request.
func (p *Process) decide(id string, u agent.Use, d agent.Decision) {
	if !d.Allow {
		p.folding.Lock()
		p.fold.Denied(u.ID)
		p.folding.Unlock()
	}
	p.reply(answer(p.options.Permission, id, u, d))
}

func (p *Process) ask(ctx context.Context, cancel context.CancelFunc, id string, u agent.Use) {
	defer p.asking.Done()
	defer cancel()
	decision := p.options.Permission.Ask(ctx, u)
	p.mu.Lock()
	delete(p.asked, id)
	if ctx.Err() == nil {
		p.permissions.decided(u, decision)
	}
	p.mu.Unlock()
	if ctx.Err() == nil {
		p.decide(id, u, decision)
	}
}

// withdraw cancels a request that the process has withdrawn.
func (p *Process) withdraw(request string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel := p.asked[request]; cancel != nil {
		cancel()
	}
}

// reply writes an answer without waiting. A process that does not read its answers is killed.
func (p *Process) reply(data []byte, err error) {
	if err == nil {
		err = p.in.post(data)
	}
	if err != nil && !errors.Is(err, ErrEnded) && !errors.Is(err, ErrUnusable) {
		p.fail(fmt.Errorf("claude: answer a control request: %w: %w", ErrOverrun, err))
	}
}
