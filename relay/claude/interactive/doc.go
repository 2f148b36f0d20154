// Package interactive starts a Claude Code that a person uses at a terminal, and tells what a launcher that shares the
// session with others has to know of it: which session it has, whether it works, what stands at its prompt, and what was
// entered and never run.
//
// Nothing here sends keys or signals: the caller owns the terminal and the process. All of it was measured on 2.1.80,
// 2.1.160, 2.1.200, 2.1.280 and 2.1.329 on Linux, parts of it on 2.1.181.
//
// # The draft
//
// What stands at the prompt is in no file, and is lost with the process. Ctrl-G hands it to an editor. [New] makes a
// script the editor, which copies the file if [Launch.TakeDraft] asked for that, and runs the person's own editor
// otherwise. VISUAL is set as well as EDITOR, because it wins. So does env of settings.json over the environment, and
// --settings over that: if the person's settings name an editor, the script is named in --settings.
//
// From 2.1.160 on the value is split at blanks, without any quoting, so the script must have a path without one. 2.1.80
// hands it to a shell.
//
// A Ctrl-G that follows a key closely can copy the text before that key (2.1.160, 2.1.200; up to half a second on a busy
// machine). Nothing is lost at the prompt. The second Ctrl-G, after the first copy has come, was right each time, so
// TakeDraft asks twice. 2.1.80 takes a Ctrl-G that it reads together with text for a part of that text: no copy comes,
// and the character is removed from the next one.
//
// A copy is exact but for tabs, which become four spaces, and a leading "!", which 2.1.160 and later leave out. In a dialog
// no copy comes.
//
// # What is not promised
//
//   - Up to 2.1.177 there is no status. The title tells whether a turn runs, the transcript whether the agent has called a
//     tool, which may ask the person. A dialog that the person has opened looks idle: there the draft does not come.
//   - Up to 2.1.177 the session is known from a SessionStart hook. If the person has disabled all hooks, it is known only
//     at the end: see [Resumes].
//   - A change of the permission mode by Shift-Tab is recorded when the process ends, from 2.1.160 on, and not if it is
//     killed. 2.1.80 records it with the next message alone: see [PermissionMode].
//   - Pictures that were pasted are not in a draft.
package interactive
