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

// Controller is what makes us, by the will of the person, a program whose messages count as the person's own in the sessions below Home.
type Controller struct {
	Home  string `json:"home"`
	ID    string `json:"id"` // by which it can be revoked
	Token string `json:"token"`
}

func controllerFile(state string) string { return filepath.Join(state, "qwen", "controller.json") }

// ControllersFile is where Qwen Code keeps which controllers there are.
func ControllersFile(home string) string { return filepath.Join(home, "peer-controllers.json") }

// KeepController keeps a controller in a state directory, in place of another one.
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

// ForgetController removes what [KeepController] has kept.
func ForgetController(state string) error {
	if err := os.Remove(controllerFile(state)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ControllerOf returns the controller that is kept for a directory of Qwen Code, if it has not been revoked there.
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
