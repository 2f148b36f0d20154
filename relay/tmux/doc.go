// Package tmux types messages into tmux panes. It is for agent programs that have no inbox.
//
// A pane is no message queue. It takes bytes, has no frames, acknowledges nothing, and a person may type into it at the
// same time. So [Deliver] looks before each step, and says exactly how far it came:
//
//   - [Confirmed]: the program has taken the message. Its transcript says so ([Steps.Submitted]), or its composer showed
//     the text before Enter and does not after it.
//   - [NotSent]: nothing was pasted, and [Outcome.Reason] says why. The message can be sent later.
//   - [Unconfirmed]: the text was pasted, and nobody knows whether it was submitted. Sending it again may make two of it,
//     so nothing does that by itself; a person decides. [Continue] may find out more, and never pastes.
//
// # What is promised
//
//   - A message is pasted at most once, also if the process is killed in any step, as long as the caller commits
//     [Steps.Pasting] and calls [Continue] afterwards.
//   - Text and Enter are never read by the program as one: Enter is a call of its own, after the terminal was drained.
//   - Enter is pressed only while the same program of the same pane is in front, in raw mode, and, with a profile that can
//     read the composer, while the composer shows exactly our text. Where the agent has ended, its shell runs nothing.
//   - A person's draft and an open dialog always hold a message. With [Input.SaveDraft], Claude Code puts the draft aside, and
//     brings it back after the message. So it does with a prompt that [Urgent] interrupted, which Claude Code may put back into
//     the composer. While a draft is put aside, Enter is pressed only once: a second one could submit the draft. A mode of
//     tmux, such as copy mode, is never cancelled.
//   - No Ctrl-C is ever sent. ESC is sent for [Urgent] alone, to a busy agent, and never within two seconds of the last.
//   - A body cannot leave the paste: it has no control characters but newline and tab.
//
// # What is not promised
//
//   - tmux has no transaction over looking and typing. A person's key, or a dialog that opens in the milliseconds between the
//     last look and Enter, is not seen.
//   - If the agent dies in the instant of the paste, the text may stand at the prompt of a shell behind it. It was not
//     entered. A shell without bracketed paste (dash) takes the line breaks of a text for Enter, and so may a [Generic]
//     program without it.
//   - Callers lock: one delivery at a time per pane, over all processes. This package has neither files nor locks.
//   - If a shell script runs the agent without exec, tmux itself cannot tell that the agent has ended: it is looked for once more
//     just before Enter. With the profile [Generic] such an agent counts as a shell, and nothing is sent to it. What runs at
//     the other end of ssh or in a container cannot be told from an agent with that profile.
//   - Line discipline and input queue of a pane are read on Linux alone. Elsewhere Deliver fails with
//     [errors.ErrUnsupported], and nothing is sent.
//
// Times and figures were measured with tmux 3.3a on Linux.
package tmux
