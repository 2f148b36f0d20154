// Package tmux types messages into tmux panes, for agent programs that have no inbox.
//
// A pane is not a message queue. It takes bytes, has no frames, acknowledges nothing, and a person may type
// into it at the same time. So [Deliver] checks the pane before each step, and reports exactly how far it
// came:
//
//   - [Confirmed]: the program has the message. Its transcript proves that ([Steps.Submitted]), or its composer showed the
//     text before Enter and does not show it afterwards.
//   - [NotSent]: nothing was pasted; [Outcome.Reason] says why. The message can be sent later.
//   - [Unconfirmed]: the text was pasted, and it is unknown whether it was submitted. A second send may submit it twice, so
//     only a person decides about that. [Continue] may find out more, and never pastes.
//
// # What is promised
//
//   - A message is pasted at most once, even if the process is killed in any step. The caller must commit [Steps.Pasting],
//     and call [Continue] afterwards.
//   - The program never reads text and Enter together: Enter is a separate call, after the program has read the text.
//   - Enter is pressed only while the same program of the same pane is in front, in raw mode. With a profile that can read
//     the composer, the composer must also show exactly our text. If the agent has ended, its shell runs nothing.
//   - A person's draft or an open dialog always holds a message. With [Input.SaveDraft], Claude Code puts the draft aside,
//     and restores it after the message. The same happens to a prompt that [Urgent] interrupted, if Claude Code puts it back
//     into the composer. While a draft is put aside, Enter is pressed only once: a second one could submit the draft. A mode
//     of tmux, such as copy mode, is never cancelled.
//   - Ctrl-C is never sent. ESC is sent only for [Urgent], only to a busy agent, and never within two seconds of the last.
//   - A text cannot end the paste: it has no control characters except newline and tab.
//
// # What is not promised
//
//   - tmux cannot check and type in one transaction. A person's key, or a dialog that opens in the milliseconds between the
//     last check and Enter, goes unnoticed.
//   - If the agent dies in the instant of the paste, the text may be at the prompt of the shell that started it, without
//     Enter. But a shell without bracketed paste (dash) takes the line breaks of a text for Enter, and so may such a
//     [Generic] program.
//   - Callers lock: one delivery at a time per pane, across all processes. This package has neither files nor locks.
//   - If a shell script runs the agent without exec, tmux cannot tell that the agent has ended, so Deliver looks for the
//     agent again just before Enter. With the profile [Generic], such an agent counts as a shell, and gets nothing. That
//     profile cannot distinguish an agent from a program at the other end of ssh or in a container.
//   - Only on Linux can the line discipline and the input queue of a pane be read. Elsewhere Deliver fails with
//     [errors.ErrUnsupported], and sends nothing.
//
// Times and figures were measured with tmux 3.3a on Linux.
package tmux
