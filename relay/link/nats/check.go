package nats

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"strings"
)

// Trusting returns o with what trust says: the SHA-256 fingerprint of the hub's own certificate, or
// a file of certificates; "" is how the system checks one.
func (o Options) Trusting(trust string) Options {
	o.CA, o.Fingerprint = "", ""
	if b, err := hex.DecodeString(strings.ReplaceAll(trust, ":", "")); err == nil && len(b) > 0 {
		o.Fingerprint = trust
	} else {
		o.CA = trust
	}
	return o
}

// Check returns an error unless there can be a hub at the address, trusted so. It connects to none.
func (o Options) Check() error {
	if o.Dial == nil {
		o.Dial = func(context.Context) (net.Conn, error) { return nil, errors.New("not now") }
	}
	_, _, err := o.Address(context.Background())
	return err
}
