package relay

import (
	"cmp"
	"errors"
	"fmt"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
)

// news is what has happened to the frame in flight.
type news int

const (
	acknowledged news = iota // the agent has told how far it has come
	rewrite                  // it is to be written, perhaps not for the first time
	died                     // the agent has ended while it had the frame
)

// facts is what is known of the frame in flight when there is news of it. The last
// group is missing until [decide] asks for it.
type facts struct {
	news    news
	frame   ledger.Frame
	onCut   OnCut
	command bool // the conversation does not tell of it

	progress agent.Progress // of acknowledged
	exit     error          // of died

	turn    *agent.Turn   // readTurn
	subject *ledger.Frame // readSubject: the frame that a nudge is about, else the frame itself
	counted bool          // countDeath: frame has this death
	single  bool          // split: the frame holds one message
}

// action is a step of the loop with the frame in flight.
type action int

const (
	wait   action = iota
	accept        // record that the agent has taken it
	resend        // write its bytes, to the agent that runs or else to the next one
	nudge         // tell the agent that its turn was cut
	finish        // end it, with state, reason and answer
	split         // put its messages back into the queue, to be sent one by one

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
	warn   string               // what the user learns of the agent, before the reason of its exit

	agentDied bool // a frame that ends so is no progress of the agent
}

// decide says what to do with the frame in flight. It does no I/O: if it needs more
// than it was given, the outcome says what to get before it is called again.
//
// A frame that is in the transcript is never written again. The message would be in
// the conversation twice, and the agent would do the work twice.
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

// beforeWrite looks whether an earlier agent has taken the frame: if it was killed before
// it echoed the frame, the next one would run it again.
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
