package claude

import "os"

// A process that could be opened exists, or is held by somebody who has it open still.
func exists(*os.Process) bool { return true }
