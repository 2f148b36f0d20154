package nats

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nkeys"

	"teambridge/teams/atomicfile"
)

// A Key is the secret identity of a machine: an Ed25519 key that identifies it to the hub, and an X25519 key
// that seals its messages with another machine.
type Key struct {
	user, box       nkeys.KeyPair
	userPub, boxPub string
}

// KeyFile is the name of the file in the state directory that holds this machine's key.
const KeyFile = "link.key"

// NewKey makes a key.
func NewKey() (*Key, error) {
	user, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	box, err := nkeys.CreateCurveKeys()
	if err != nil {
		return nil, err
	}
	return keyOf(user, box)
}

func keyOf(user, box nkeys.KeyPair) (*Key, error) {
	userPub, err := user.PublicKey()
	if err != nil {
		return nil, err
	}
	boxPub, err := box.PublicKey()
	if err != nil {
		return nil, err
	}
	return &Key{user, box, userPub, boxPub}, nil
}

// ReadKey reads a file of [WriteKey]. It refuses a file that others can read.
func ReadKey(path string) (*Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the key of this machine: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the key of this machine: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the key of this machine, %s, is not a regular file", path)
	}
	if atomicfile.Exposed(info) {
		return nil, fmt.Errorf("the key of this machine, %s, is open to other users (mode %04o): if none of them has read it, type: chmod 600 %[1]s", path, info.Mode().Perm())
	}
	var data [1 << 10]byte
	n, err := f.Read(data[:])
	if err != nil && info.Size() > 0 {
		return nil, fmt.Errorf("read the key of this machine: %w", err)
	}
	defer clear(data[:])
	corrupt := func(what string) error {
		return fmt.Errorf("%s is not the key of a machine: %s; restore it from a backup, or delete it for a new identity, which every hub and peer must then add again", path, what)
	}
	lines := bytes.Split(bytes.TrimSuffix(data[:n], []byte("\n")), []byte("\n"))
	if len(lines) != 2 {
		return nil, corrupt("it does not have two lines")
	}
	user, err := nkeys.FromSeed(lines[0])
	if err == nil {
		err = nkeys.CompatibleKeyPair(user, nkeys.PrefixByteUser)
	}
	if err != nil {
		return nil, corrupt("line 1 is not the seed of a user key (SU…)")
	}
	box, err := nkeys.FromCurveSeed(lines[1])
	if err != nil {
		return nil, corrupt("line 2 is not the seed of a curve key (SX…)")
	}
	return keyOf(user, box)
}

// WriteKey writes a key to a new file that only its owner can read. If the file exists, the error is
// [fs.ErrExist]: a machine's identity is never replaced by accident.
func WriteKey(path string, k *Key) error {
	user, err := k.user.Seed()
	if err != nil {
		return err
	}
	box, err := k.box.Seed()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the key of this machine: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s\n%s\n", user, box)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the key of this machine: %w", err), os.Remove(path))
	}
	return nil
}

// Card returns the public identity of a machine with this key.
func (k *Key) Card(name string) Card { return Card{Name: name, Key: k.userPub, Box: k.boxPub} }

// Sign signs a nonce of the hub.
func (k *Key) Sign(nonce []byte) ([]byte, error) { return k.user.Sign(nonce) }

// A Card is the public identity of a machine: its name and key for the hub, and its box for its peers. It
// contains no secret.
type Card struct {
	Name string // at most 32 of a to z, 0 to 9 and -
	Key  string // U…, the public part of the key for the hub
	Box  string // X…, the public part of the key for other machines
}

// String returns NAME:U…:X…, which [ParseCard] reads.
func (c Card) String() string { return c.Name + ":" + c.Key + ":" + c.Box }

// ParseCard parses a card. Its error names the fault.
func ParseCard(s string) (Card, error) {
	parts := strings.Split(strings.TrimSpace(s), ":")
	if len(parts) != 3 {
		return Card{}, fmt.Errorf("%.80q is not a card: a card is NAME:U…:X…, as teambridge link card prints it", s)
	}
	c := Card{parts[0], parts[1], parts[2]}
	if err := CheckName(c.Name); err != nil {
		return Card{}, fmt.Errorf("card: %w", err)
	}
	if !nkeys.IsValidPublicUserKey(c.Key) {
		return Card{}, wrongKey(c.Name, "second", "U", c.Key)
	}
	if !nkeys.IsValidPublicCurveKey(c.Box) {
		return Card{}, wrongKey(c.Name, "third", "X", c.Box)
	}
	return c, nil
}

func wrongKey(name, part, prefix, key string) error {
	why := fmt.Sprintf("it does not begin with %s", prefix)
	switch {
	case strings.HasPrefix(key, "S"):
		why = "it begins with S, so it is a secret key, which must never be shared"
		key = "S…"
	case strings.HasPrefix(key, prefix):
		why = "a character is missing or wrong"
	}
	return fmt.Errorf("card of %s: its %s part, %.60q, is not a public key: %s", name, part, key, why)
}

// CheckName returns an error unless a machine can have this name.
func CheckName(name string) error {
	if name == "" || len(name) > 32 {
		return fmt.Errorf("a machine has a name of 1 to 32 characters, not %d", len(name))
	}
	for _, r := range name {
		if !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-') {
			return fmt.Errorf("%q cannot be the name of a machine: only a to z, 0 to 9 and - are allowed", name)
		}
	}
	return nil
}

// MarshalText implements [encoding.TextMarshaler].
func (c Card) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *Card) UnmarshalText(b []byte) (err error) {
	*c, err = ParseCard(string(b))
	return err
}
