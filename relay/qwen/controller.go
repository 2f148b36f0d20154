package qwen

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"teambridge/teams/atomicfile"
)

// Controller makes our messages count as the person's own in the sessions below Home, if the person agrees.
type Controller struct {
	Home  string `json:"home"`
	ID    string `json:"id"` // for revoking it
	Token string `json:"token"`
}

func controllerFile(state string) string { return filepath.Join(state, "qwen", "controller.json") }

// ControllersFile returns the path of Qwen Code's list of controllers.
func ControllersFile(home string) string { return filepath.Join(home, "peer-controllers.json") }

// KeepController writes a controller to a state directory, and replaces an earlier one.
func KeepController(state string, c Controller) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(controllerFile(state)), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(controllerFile(state), data)
}

// ForgetController removes the controller that [KeepController] wrote.
func ForgetController(state string) error {
	if err := os.Remove(controllerFile(state)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ControllerOf returns the kept controller for a directory of Qwen Code, unless it was revoked there.
func ControllerOf(state, home string) (c Controller, ok bool) {
	data, err := os.ReadFile(controllerFile(state))
	if err != nil || json.Unmarshal(data, &c) != nil || c.ID == "" || c.Token == "" || c.Home != home {
		return Controller{}, false
	}
	return c, HasController(home, c.ID)
}

// HasController reports whether Qwen Code has the controller with this id.
func HasController(home, id string) bool {
	now, err := os.ReadFile(ControllersFile(home))
	text, _ := json.Marshal(id)
	return err == nil && id != "" && bytes.Contains(now, text)
}
