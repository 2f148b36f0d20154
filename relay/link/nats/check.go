package nats

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"strings"
)

// Trusting returns o with trust in the hub's certificate: a SHA-256 fingerprint, a file of CA certificates,
// or "" for the system's CAs.
func (o Options) Trusting(trust string) Options {
	o.CA, o.Fingerprint = "", ""
	if b, err := hex.DecodeString(strings.ReplaceAll(trust, ":", "")); err == nil && len(b) > 0 {
		o.Fingerprint = trust
	} else {
		o.CA = trust
	}
	return o
}

// Check returns an error if no hub can have this address and certificate. It does not connect.
func (o Options) Check() error {
	if o.Dial == nil {
		o.Dial = func(context.Context) (net.Conn, error) { return nil, errors.New("not now") }
	}
	_, _, err := o.Address(context.Background())
	return err
}
