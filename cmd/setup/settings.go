package setup

import (
	"bytes"
	"errors"
	"fmt"

	"teambridge/teams"
	"teambridge/teams/rawjson"
)

// envKey is the object in Claude Code's settings whose members are variables of its environment.
const envKey = "env"

// enabled is the value that we give the variable.
const enabled = `"1"`

// added is what [addVariable] has added besides the variable.
type added struct {
	File  bool   `json:"file,omitempty"`
	Env   bool   `json:"env,omitempty"`   // the object of all variables
	Blank string `json:"blank,omitempty"` // the white space in what was empty before
}

// settings is the content of a settings file, and where in it the variable is that turns teams on.
type settings struct {
	data     []byte
	whole    rawjson.Span
	env      *rawjson.Field // of whole; nil: none
	variable *rawjson.Field // of env; nil: none
}

// parse finds the variable. What is not as expected is an error.
func parse(data []byte) (s settings, err error) {
	const space = " \t\r\n"
	s = settings{data: data, whole: rawjson.Span{Start: len(data) - len(bytes.TrimLeft(data, space)), End: len(bytes.TrimRight(data, space))}}
	if s.whole.Start > s.whole.End {
		return s, errors.New("the file is empty")
	}
	if s.env, err = member(data, s.whole, envKey); err != nil || s.env == nil {
		return s, err
	}
	if kind := rawjson.Kind(s.env.Value.Of(data)); kind != '{' {
		return s, fmt.Errorf("%q is not an object", envKey)
	}
	s.variable, err = member(data, s.env.Value, teams.EnableVariable)
	return s, err
}

// member returns the member of the object at in that has a name, with its place in data; nil if there is none.
func member(data []byte, in rawjson.Span, name string) (found *rawjson.Field, err error) {
	fields, err := rawjson.Fields(in.Of(data))
	if err != nil {
		return nil, err
	}
	for i, f := range fields {
		if f.Name != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%q is in it twice", name)
		}
		found = &fields[i]
		found.Key, found.Value = f.Key.Within(in), f.Value.Within(in)
	}
	return found, nil
}

// value returns the value of the variable.
func (s settings) value() (value string, ok bool) {
	if s.variable == nil {
		return "", false
	}
	raw := s.variable.Value.Of(s.data)
	if text, err := rawjson.Text(raw); err == nil {
		return text, true
	}
	return string(raw), true
}

// addVariable returns the content of a settings file, which has no such variable, with the one that turns teams on. nil is no file.
func addVariable(data []byte) ([]byte, added, error) {
	a := added{File: data == nil}
	if a.File {
		data = []byte("{}\n")
	}
	s, err := parse(data)
	if err != nil {
		return nil, a, err
	}
	in, name, value := s.whole, envKey, []byte(`{"`+teams.EnableVariable+`":`+enabled+`}`)
	if a.Env = s.env == nil; !a.Env {
		in, name, value = s.env.Value, teams.EnableVariable, []byte(enabled)
	}
	if inside := string(data[in.Start+1 : in.End-1]); len(bytes.TrimSpace([]byte(inside))) == 0 {
		a.Blank = inside
	}
	data, err = rawjson.AddField(data, in, name, value)
	return data, a, err
}

// removeVariable returns the content without what [addVariable] has added: nil if it was the file, and nothing else is left in it.
// A variable with another value by now is somebody else's.
func removeVariable(data []byte, a added) ([]byte, error) {
	s, err := parse(data)
	if err != nil {
		return nil, err
	}
	if s.variable == nil || string(s.variable.Value.Of(data)) != enabled {
		return data, nil
	}
	in, name := s.env.Value, teams.EnableVariable
	fields, err := rawjson.Fields(in.Of(data))
	if err != nil {
		return nil, err
	}
	blank := a.Blank
	if a.Env {
		if blank = ""; len(fields) == 1 {
			in, name, blank = s.whole, envKey, a.Blank
			if fields, err = rawjson.Fields(in.Of(data)); err != nil {
				return nil, err
			}
			if a.File && len(fields) == 1 {
				return nil, nil
			}
		}
	}
	for i, f := range fields {
		if f.Name == name {
			return rawjson.RemoveItem(data, in, i, blank)
		}
	}
	return data, nil
}
