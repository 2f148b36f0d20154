package nats

import (
	"bytes"
	"errors"
	"fmt"
)

// A kind is the type of a sealed text. It is inside the seal, so that a text of one kind cannot pass for
// another.
type kind byte

const (
	frameKind kind = 'f'
	toldKind  kind = 't'
	helloKind kind = 'h' // from a machine to other services with its own name
)

// sealVersion is the version of the sealed header. The content of a frame has its own version.
const sealVersion = 1

// header returns the start of a sealed text. It includes both names, because two machines share one key for
// both directions.
func header(k kind, from, to string) []byte {
	h := []byte{sealVersion, byte(k), byte(len(from))}
	h = append(h, from...)
	h = append(h, byte(len(to)))
	return append(h, to...)
}

// seal seals a text from this machine, named from, to the machine of a card.
func (k *Key) seal(kind kind, from string, to Card, body []byte) ([]byte, error) {
	sealed, err := k.box.Seal(append(header(kind, from, to.Name), body...), to.Box)
	if err != nil {
		return nil, fmt.Errorf("seal for %s: %w", to.Name, err)
	}
	return sealed, nil
}

// open opens a text that the machine of a card has sealed for this machine, named to.
func (k *Key) open(kind kind, from Card, to string, sealed []byte) ([]byte, error) {
	text, err := k.box.Open(sealed, from.Box)
	if err != nil {
		return nil, fmt.Errorf("open a text in the name of %s: %w", from.Name, err)
	}
	if len(text) == 0 || text[0] != sealVersion {
		return nil, fmt.Errorf("%s uses a version of seals that this program does not support", from.Name)
	}
	body, ok := bytes.CutPrefix(text, header(kind, from.Name, to))
	if !ok {
		return nil, errors.New("a text that " + from.Name + " sealed has another kind, sender or recipient than this one")
	}
	return body, nil
}
