package simagent

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// object is a JSON object as in JavaScript: keys in their original order, one
// value for each, the last one given. Values keep their bytes. A map would lose
// the order, and a struct the unknown keys.
type object []field

type field struct {
	key   string
	value json.RawMessage
}

// newObject encodes an object of these keys and values, which come in turn.
func newObject(pairs ...any) (json.RawMessage, error) {
	var o object
	for i := 0; i < len(pairs); i += 2 {
		value, err := encode(pairs[i+1])
		if err != nil {
			return nil, err
		}
		o.set(pairs[i].(string), value)
	}
	return o.encode()
}

func parseObject(data []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if token, err := dec.Token(); err != nil {
		return nil, err
	} else if token != json.Delim('{') {
		return nil, fmt.Errorf("want an object, got %v", token)
	}
	var o object
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		o.set(key.(string), value) // between { and } every other token is a string
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	return o, nil
}

func (o object) value(key string) json.RawMessage {
	for _, f := range o {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// text returns the value of key and whether it is a string.
func (o object) text(key string) (string, bool) {
	value := o.value(key)
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(value, &s)
	return s, err == nil
}

func (o *object) set(key string, value json.RawMessage) {
	for i := range *o {
		if (*o)[i].key == key {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, field{key, value})
}

func (o object) encode() (json.RawMessage, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		key, err := encode(f.key)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(f.value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// encode is JSON.stringify without an indent: <, > and & stay themselves.
func encode(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("simagent: encode %T: %w", v, err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// indent is the form of every file that Claude Code writes for a team.
func indent(data []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return nil, fmt.Errorf("simagent: indent: %w", err)
	}
	return out.Bytes(), nil
}
