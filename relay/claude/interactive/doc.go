// Package interactive starts a Claude Code that a person uses at a terminal. It gives a launcher that shares the
// session with others the facts that it needs: the session, whether the program works, the draft at its prompt, and
// the prompts that were entered and never run.
//
// Nothing here sends keys or signals: the caller owns the terminal and the process. All of it was measured on Linux.
//
// # The draft
//
// The draft is the text at the prompt. It is in no file, and is lost with the process. Ctrl-G hands it to an editor.
// [New] makes a script the editor, which copies the file if [Launch.TakeDraft] has asked for the draft, and otherwise
// runs the person's own editor. VISUAL takes precedence over EDITOR, so both are set. env in settings.json takes
// precedence over the environment, and --settings over both: if the person's settings name an editor, --settings
// names the script. Claude Code splits the value at blanks, without any quoting, so the path of the script must have
// no blank.
//
// A Ctrl-G that follows a key closely can copy the text before that key, on a busy machine up to half a second after
// it. Nothing is lost at the prompt. The copy of a second Ctrl-G, pressed after the first copy had come, was right
// each time, so TakeDraft asks twice.
//
// A copy is exact, except that tabs become four spaces, and a leading "!" is left out. In a dialog no copy comes.
//
// # What is not promised
//
//   - A change of the permission mode by Shift-Tab is recorded when the process ends, and not if it is killed: see
//     [PermissionMode].
//   - Pictures that were pasted are not in a draft.
package interactive
