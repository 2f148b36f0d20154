package relay

import (
	"cmp"
	"errors"
	"fmt"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
)

// news is an event that concerns the frame in flight.
type news int

const (
	acknowledged news = iota // the agent has reported progress
	rewrite                  // the frame is about to be written, perhaps again
	died                     // the agent has exited during the frame
)

// facts is what the loop knows of the frame in flight when there is news. The last group stays empty until
// [decide] asks for it.
type facts struct {
	news    news
	frame   ledger.Frame
	onCut   OnCut
	command bool // the frame is a command, which the transcript does not show

	progress agent.Progress // with acknowledged
	exit     error          // with died

	turn    *agent.Turn   // readTurn
	subject *ledger.Frame // readSubject: the frame that a nudge is about, or else the frame itself
	counted bool          // countDeath: this death is counted in frame
	single  bool          // split: the frame holds one message
}

// action is a step that the loop takes with the frame in flight.
type action int

const (
	wait   action = iota
	accept        // record that the agent has accepted it
	resend        // write its bytes to the running agent, or else to the next one
	nudge         // ask the agent to continue the cut turn
	finish        // end it, with state, reason and answer
	split         // put its messages back into the queue, to be sent one by one

	// These fetch a missing fact.
	readTurn
	readSubject
	countDeath
)

// outcome is the decision that follows from facts.
type outcome struct {
	do     action
	state  ledger.DeliveryState // for finish
	reason string               // for finish
	answer string               // for finish: the agent's last text
	warn   string               // a warning for the user, to be followed by the reason of the agent's exit

	agentDied bool // ending this frame is no progress, since the agent died
}

// decide chooses the next step for the frame in flight. It does no I/O: if a fact is missing, the outcome
// says which one to fetch before calling it again.
//
// A frame that is in the transcript is never written again: the agent would do the work twice.
func decide(f facts) outcome {
	switch f.news {
	case acknowledged:
		return afterProgress(f)
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
			do: finish, state: ledger.Done, reason: "the program acknowledges nothing; it may have been said twice", answer: text,
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

// beforeWrite checks whether an earlier agent has taken the frame. If that one was killed before it echoed
// the frame, the next agent would run it again.
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

// afterTurn ends a frame that an agent took before the agent or the relay died. A cut turn is continued by a
// nudge.
func afterTurn(f facts) outcome {
	switch {
	case f.turn == nil:
		return outcome{do: readTurn}
	case f.turn.Finished:
		return outcome{do: finish, state: ledger.Done, answer: f.turn.Text}
	case f.turn.Interrupted:
		return outcome{do: finish, state: ledger.Cancelled, reason: "interrupted"}
	case f.turn.Failed:
		return failed(cmp.Or(f.turn.Failure, "its turn failed"))
	case f.subject == nil:
		return outcome{do: readSubject}
	case f.onCut == ReportCut || f.subject.Kind == ledger.FrameCommand:
		return failed("its turn was cut by a crash")
	case f.subject.Nudges >= MaxNudges:
		return failed(fmt.Sprintf("its turn was cut %d times", f.subject.Nudges+1))
	}
	return outcome{do: nudge}
}

// afterDeath sends the frame to the next agent, unless agents keep dying of it. Several messages that no
// agent has ever taken are sent one by one, since one of them may be the cause.
func afterDeath(f facts) outcome {
	if widened, ok := errors.AsType[*agent.WidenedError](f.exit); ok {
		// With the same permissions the agent would widen them again.
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
