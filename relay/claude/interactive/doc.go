// Package interactive starts a Claude Code that a person uses at a terminal, and tells what a launcher that shares the
// session with others has to know of it: which session it has, whether it works, what stands at its prompt, and what was
// entered and never run.
//
// Nothing here sends keys or signals: the caller owns the terminal and the process. All of it was measured on Linux.
//
// # The draft
//
// What stands at the prompt is in no file, and is lost with the process. Ctrl-G hands it to an editor. [New] makes a
// script the editor, which copies the file if [Launch.TakeDraft] asked for that, and runs the person's own editor
// otherwise. VISUAL is set as well as EDITOR, because it wins. So does env of settings.json over the environment, and
// --settings over that: if the person's settings name an editor, the script is named in --settings.
//
// The value is split at blanks, without any quoting, so the script must have a path without one.
//
// A Ctrl-G that follows a key closely can copy the text before that key, on a busy machine up to half a second after it.
// Nothing is lost at the prompt. The second Ctrl-G, after the first copy has come, was right each time, so TakeDraft asks
// twice.
//
// A copy is exact but for tabs, which become four spaces, and a leading "!", which is left out. In a dialog no copy comes.
//
// # What is not promised
//
//   - A change of the permission mode by Shift-Tab is recorded when the process ends, and not if it is killed: see
//     [PermissionMode].
//   - Pictures that were pasted are not in a draft.
package interactive
