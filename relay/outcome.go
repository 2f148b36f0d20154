package relay

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
)

// news is what has happened to the frame in flight.
type news int

const (
	acknowledged  news = iota // the agent has told how far it has come
	resultPending             // a turn has ended, which may have been another's
	rewrite                   // it is to be written, perhaps not for the first time
	died                      // the agent has ended while it had the frame
)

// facts is what is known of the frame in flight when there is news of it. The last
// group is missing until [decide] asks for it.
type facts struct {
	news    news
	frame   ledger.Frame
	onCut   OnCut
	command bool // the conversation does not tell of it
	silent  bool // the agent has not acknowledged it by its uuid, and does not

	progress   agent.Progress // of acknowledged and resultPending
	superseded bool           // of resultPending: another turn has begun since
	waited     time.Duration  // of resultPending: since the turn ended
	exit       error          // of died

	turn    *agent.Turn   // readTurn
	subject *ledger.Frame // readSubject: the frame that a nudge is about, else the frame itself
	counted bool          // countDeath: frame has this death
	single  bool          // split: the frame holds one message
}

// action is a step of the loop with the frame in flight.
type action int

const (
	wait       action = iota
	accept            // record that the agent has taken it
	holdResult        // keep the result until it is known whose it is
	resend            // write its bytes, to the agent that runs or else to the next one
	nudge             // tell the agent that its turn was cut
	finish            // end it, with state, reason and answer
	split             // put its messages back into the queue, to be sent one by one

	// These get what is missing to decide.
	readTurn
	readSubject
	countDeath
)

// outcome is what comes of facts.
type outcome struct {
	do     action
	state  ledger.DeliveryState // of finish
	reason string               // of finish
	answer string               // of finish: what the agent said last
	after  time.Duration        // of wait: look again then; 0 is with the next news
	warn   string               // what the user learns of the agent, before the reason of its exit

	unproven  bool // the program acknowledges nothing
	agentDied bool // a frame that ends so is no progress of the agent
}

// pendingResult is the end of a turn of an agent that does not say whose turn it was. It
// began after the frame was written, but can have been that of a background task.
type pendingResult struct {
	progress   agent.Progress
	since      time.Time
	superseded bool // another turn has begun since
}

// Claude Code 2.1.80 writes the record of a turn some 100 ms after it printed the
// result. If no other turn begins for resultTimeout, the one that ended was that of
// the frame. A conversation that is kept and does not have the frame speaks against
// that: under load an agent can take that long to read its stdin.
const (
	resultPoll      = 50 * time.Millisecond // at first; then an eighth of the time that has passed
	resultTimeout   = 10 * time.Second
	unstoredTimeout = 6 * resultTimeout // of a frame that is not in the conversation
)

// decide says what to do with the frame in flight. It does no I/O: if it needs more
// than it was given, the outcome says what to get before it is called again.
//
// A frame that is in the transcript is never written again. The message would be in
// the conversation twice, and the agent would do the work twice.
func decide(f facts) outcome {
	switch f.news {
	case acknowledged:
		if s := f.progress.State; f.silent && (s == agent.Done || s == agent.Failed || s == agent.Cancelled) {
			return outcome{do: holdResult}
		}
		return afterProgress(f)
	case resultPending:
		return afterResult(f)
	case rewrite:
		return beforeWrite(f)
	}
	return afterDeath(f)
}

func afterProgress(f facts) outcome {
	text, failure := "", ""
	if r := f.progress.Result; r != nil {
		text, failure = r.Text, r.Failure
	}
	switch f.progress.State {
	case agent.Accepted:
		return outcome{do: accept}
	case agent.Done:
		return outcome{do: finish, state: ledger.Done, answer: text}
	case agent.Unproven:
		return outcome{
			do: finish, state: ledger.Done, reason: "the program acknowledges nothing; it may have been said twice", answer: text, unproven: true,
		}
	case agent.Failed:
		return failed(cmp.Or(failure, "its turn failed"))
	case agent.Cancelled:
		return outcome{do: finish, state: ledger.Cancelled, reason: "interrupted"}
	case agent.Known:
		return afterTurn(f)
	}
	return outcome{do: wait}
}

// afterResult finds out in the transcript whose turn has ended.
func afterResult(f facts) outcome {
	if f.turn == nil {
		return outcome{do: readTurn}
	}
	stored := f.turn.Stored || f.turn.Unknown
	switch {
	case f.turn.Over(), !f.superseded && stored && f.waited > resultTimeout:
		return afterProgress(f)
	case f.superseded:
		return outcome{do: wait}
	case f.waited > unstoredTimeout:
		o := afterProgress(f)
		o.reason = cmp.Or(o.reason, "a turn ended, but the conversation has no record of the message; it may not have been taken")
		return o
	}
	return outcome{do: wait, after: max(resultPoll, f.waited/8)}
}

// beforeWrite looks whether an earlier agent has taken the frame. An older version would
// not say that it knows a teammate's message. A newer one can have been killed before it
// echoed the frame, and would run it again.
func beforeWrite(f facts) outcome {
	switch {
	case f.frame.Tries == 0 || f.command:
		return outcome{do: resend}
	case f.turn == nil:
		return outcome{do: readTurn}
	case !f.turn.Stored:
		return outcome{do: resend}
	}
	return afterTurn(f)
}

// afterTurn ends a frame that an agent took before it, or the relay, died. A turn that
// was cut goes on with a nudge.
func afterTurn(f facts) outcome {
	switch {
	case f.turn == nil:
		return outcome{do: readTurn}
	case f.turn.Finished:
		return outcome{do: finish, state: ledger.Done, answer: f.turn.Text}
	case f.turn.Interrupted:
		return outcome{do: finish, state: ledger.Cancelled, reason: "interrupted"}
	case f.turn.Failed:
		return failed("its turn failed")
	case f.subject == nil:
		return outcome{do: readSubject}
	case f.onCut == ReportCut || f.subject.Kind == ledger.FrameCommand:
		return failed("its turn was cut by a crash")
	case f.subject.Nudges >= MaxNudges:
		return failed(fmt.Sprintf("its turn was cut %d times", f.subject.Nudges+1))
	}
	return outcome{do: nudge}
}

// afterDeath gives the frame to the next agent, unless it is what agents die of. Several
// messages that the agent has never taken are sent one by one: one of them may be that.
func afterDeath(f facts) outcome {
	if widened, ok := errors.AsType[*agent.WidenedError](f.exit); ok {
		// With the same permissions it would do the same again.
		o := failed("stopped: " + widened.Error())
		o.warn = "was stopped, and its message is given up"
		return o
	}
	if !f.counted {
		return outcome{do: countDeath}
	}
	deaths := f.frame.Deaths
	if deaths >= MaxDeaths-1 && f.frame.State == ledger.FrameWritten && f.frame.Kind == ledger.FrameMessage && !f.single {
		if f.turn == nil {
			return outcome{do: readTurn}
		}
		if !f.turn.Stored && !f.turn.Unknown {
			return outcome{do: split, warn: fmt.Sprintf("died %d times with several messages, and took none: they are said one by one", deaths)}
		}
	}
	if deaths >= MaxDeaths {
		o := failed("agent died")
		o.warn, o.agentDied = fmt.Sprintf("died %d times with one message: it is given up", deaths), true
		return o
	}
	return outcome{do: resend}
}

func failed(reason string) outcome {
	return outcome{do: finish, state: ledger.Failed, reason: reason}
}
