package simchild

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"teambridge/teams"
)

// Variable is the environment variable that makes [Main] the simulated child. It holds a [Script] as JSON.
const Variable = "TEAMBRIDGE_SIMCHILD"

// Version is the version that the child reports, unless its [Script] has another.
var Version = teams.Version{Major: 2, Minor: 1, Patch: 332}

// Script configures the child.
type Script struct {
	// Version is the version that it reports. Zero is a current one. It always behaves like a current one.
	Version teams.Version `json:"version,omitzero"`
	// State is the folder for transcripts and the log. Empty is $CLAUDE_CONFIG_DIR.
	State string `json:"state,omitempty"`
	// Mute makes it a program that acknowledges nothing: no init, no echo, no lifecycle, no memory, only results.
	Mute bool `json:"mute,omitempty"`
	// Refuse lists the permission modes that set_permission_mode answers with an error, as Claude Code does with those it
	// does not know.
	Refuse []string `json:"refuse,omitempty"`
	// Mode is the permission mode that it works in, whatever its flags say. Empty: that of the flags, else default.
	Mode string `json:"mode,omitempty"`
	// IgnoreTerm makes it survive SIGTERM.
	IgnoreTerm bool `json:"ignoreTerm,omitempty"`
	// OwnTeamID gives the team of an interactive one an id of its own, and not that of its session, as 2.1.310 and older
	// versions do if the session was given or resumed.
	OwnTeamID bool `json:"ownTeamId,omitempty"`
	// Lag is how long after Enter the transcript of an interactive one has the prompt. Zero is 100 ms.
	Lag time.Duration `json:"lag,omitempty"`
	// Scenes are actions in addition to those of a text.
	Scenes []Scene `json:"scenes,omitempty"`
	// Faults are its faults, each at its point.
	Faults []Fault `json:"faults,omitempty"`
}

// Scene is its output in a turn.
type Scene struct {
	Match string `json:"match,omitempty"` // the texts that contain it; empty: all
	Say   string `json:"say"`
}

// Env is the entry for the environment of the child.
func (s Script) Env() string {
	data, err := json.Marshal(s)
	if err != nil {
		// Strings, numbers and booleans always have a form.
		data = []byte("{}")
	}
	return Variable + "=" + string(data)
}

// Point is a moment in the life of the child.
type Point string

// The points, in the order they are passed.
const (
	Start    Point = "start"    // before anything is read
	Read     Point = "read"     // a frame was read, nothing printed
	Stored   Point = "stored"   // init was printed, the frame is in the transcript
	Began    Point = "began"    // the delay of SLEEP or WAIT is over, the frame was not echoed
	Echoed   Point = "echoed"   // the frame was echoed, the work is not done
	Called   Point = "called"   // the tool of TOOL runs
	Worked   Point = "worked"   // the work is done and logged, the answer not in the transcript
	Finished Point = "finished" // the answer is in the transcript, and was not printed
	Answered Point = "answered" // assistant and result were printed; no lifecycle says completed yet
	Ended    Point = "ended"    // the turn is over
	Changed  Point = "changed"  // between two turns: the permission mode was changed to the Match, and nothing was answered
)

// Fault is a fault at a point.
type Fault struct {
	At Point  `json:"at"`
	Do Action `json:"do"`
	// Match limits it to turns whose text contains it.
	Match string `json:"match,omitempty"`
	// Times is how often it strikes in this State, over all processes; 0 is always.
	Times int `json:"times,omitempty"`
	// Size is the number of bytes, for Flood and Noise.
	Size int `json:"size,omitempty"`
	// Name is the name of a file in the State, for Hold and Task.
	Name string `json:"name,omitempty"`
}

// Action is the effect of a fault.
type Action string

// The actions.
const (
	Die   Action = "die"   // killed, as by kill -9
	Exit  Action = "exit"  // exit code 1, with a line on stderr
	Hang  Action = "hang"  // does nothing more, and reads nothing more
	Deaf  Action = "deaf"  // reads nothing more, and goes on
	Flood Action = "flood" // prints Size bytes in lines of an unknown type
	Noise Action = "noise" // prints something that is not JSON, and a line of Size bytes
	Torn  Action = "torn"  // prints half a line and is killed
	Hold  Action = "hold"  // logs "hold", and waits until the file of that Name is in the State; it reads nothing meanwhile
	Widen Action = "widen" // changes to the permission mode bypassPermissions
	Task  Action = "task"  // starts a background task, which ends when the file of that Name is in the State; then a turn of its own follows, up to the file of that Name with ".end"
	Full  Action = "full"  // the disk is full: nothing more goes into the transcript, which it reports when it exits by itself
	Quit  Action = "quit"  // exit code 0
	Other Action = "other" // prints a turn without a prompt: init, assistant and result, as of a background task
)

// strike reports whether a fault strikes, and counts it. A file per fault and time, made O_EXCL, counts over processes.
func (s Script) strike(i int) bool {
	f := s.Faults[i]
	if f.Times == 0 {
		return true
	}
	for n := range f.Times {
		name := filepath.Join(s.State, "fault-"+strconv.Itoa(i)+"-"+strconv.Itoa(n))
		file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			_ = file.Close()
			return true
		}
	}
	return false
}

// given returns the script of the environment, if there is one. If it is invalid, the program ends.
func given() (Script, bool) {
	data, ok := os.LookupEnv(Variable)
	if !ok {
		return Script{}, false
	}
	s := Script{State: os.Getenv("CLAUDE_CONFIG_DIR")}
	dec := json.NewDecoder(strings.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(&s)
	if err == nil && s.State == "" {
		err = errors.New("no state, and no CLAUDE_CONFIG_DIR")
	}
	if err == nil {
		err = os.MkdirAll(s.State, 0o700)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "simchild: %s: %v\n", Variable, err)
		os.Exit(2)
	}
	if !s.Version.Known() {
		s.Version = Version
	}
	return s, true
}
