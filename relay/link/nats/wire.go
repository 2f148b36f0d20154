package nats

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"teambridge/relay/link"
)

// Options are the options of [Dial].
type Options struct {
	Name string // the name of this machine
	Key  *Key

	// Hub is the address of the hub: tls://HOST[:PORT], ssh://HOST, which needs Dial, or
	// nats://HOST[:PORT], without encryption, for a hub on this machine.
	Hub string
	// Dial connects to the hub at an ssh:// address.
	Dial func(context.Context) (net.Conn, error)
	// CA is a file of certificates, one of which must have signed the hub's. Without it and without
	// Fingerprint, the system's CAs are used.
	CA string
	// Fingerprint is the SHA-256 of the hub's own certificate, in hexadecimal digits.
	Fingerprint string

	// Card returns the card of a peer. The wire calls it for each text, so peers can come and go.
	Card func(peer string) (Card, bool)

	// Unpin takes over the queue at the start. Without it, the hub first waits 10 s for an earlier process.
	// The caller must hold a lock that proves that this process is gone.
	Unpin bool

	times
}

// times are the wire's intervals and limits. Tests shorten them.
type times struct {
	hello     time.Duration // the interval of hellos
	gone      time.Duration // a service that sends no hello for this long counts as gone
	answer    time.Duration // how long another service has to answer the first hello
	expires   time.Duration // the life of a pull
	retry     time.Duration
	reconnect time.Duration // plus up to half of it
}

// Wire is a connection to a hub. It implements [link.Wire].
type Wire struct {
	Options
	nc     *nats.Conn
	cancel context.CancelFunc
	wg     sync.WaitGroup

	relinked chan struct{} // signals each connect
	yield    chan struct{} // signals an older service with this identity
	wake     chan struct{} // wakes Next

	mu      sync.Mutex
	state   link.State
	told    []link.Arrival // at most one of each machine
	heard   bool           // Next last returned a text
	frame   *link.Arrival
	changed bool
	conn    context.Context // ends with the connection
	ended   context.CancelFunc
	denied  error // the last refusal of a request by the hub
	twins   twins
}

// maxTold limits the unread texts. Further texts are lost.
const maxTold = 256

// Dial returns a wire, which lasts until ctx ends or Close is called. An unreachable hub is no error: the
// wire keeps trying, and [Wire.State] reports the result.
func Dial(ctx context.Context, o Options) (*Wire, error) {
	if err := CheckName(o.Name); err != nil {
		return nil, err
	}
	if o.Key == nil || o.Card == nil {
		return nil, errors.New("nats: Options without Key or Card")
	}
	o.hello, o.gone = cmp.Or(o.hello, 5*time.Second), cmp.Or(o.gone, 12*time.Second)
	o.answer, o.expires, o.retry = cmp.Or(o.answer, 500*time.Millisecond), cmp.Or(o.expires, 5*time.Second), cmp.Or(o.retry, time.Second)
	o.reconnect = cmp.Or(o.reconnect, 500*time.Millisecond)
	ctx, cancel := context.WithCancel(ctx)
	w := &Wire{Options: o, cancel: cancel, twins: newTwins(), state: link.State{Since: time.Now().UTC(), Waiting: -1},
		conn: context.Background(), ended: func() {}, relinked: make(chan struct{}, 1), yield: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	opts := []nats.Option{
		nats.Name("teambridge " + o.Name), nats.Nkey(o.Key.userPub, o.Key.user.Sign), nats.CustomInboxPrefix(inbox(o.Name)),
		nats.Timeout(3 * time.Second), nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(), nats.IgnoreDiscoveredServers(),
		nats.MaxReconnects(-1), nats.ReconnectWait(o.reconnect), nats.ReconnectJitter(o.reconnect/2, o.reconnect/2),
		nats.ReconnectBufSize(-1), // the outbox is the buffer
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.ConnectHandler(func(*nats.Conn) { w.connected() }),
		nats.ReconnectHandler(func(*nats.Conn) { w.connected() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { w.disconnected(err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { w.disconnected(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { w.asyncError(err) }),
	}
	address, more, err := o.Address(ctx)
	if err == nil {
		w.nc, err = nats.Connect(address, append(opts, more...)...)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	w.wg.Go(func() { w.receive(ctx) })
	w.wg.Go(func() { w.sayHello(ctx) })
	context.AfterFunc(ctx, w.nc.Close)
	return w, nil
}

// Address returns the address of the hub for nats.go, and the necessary options.
func (o Options) Address(ctx context.Context) (string, []nats.Option, error) {
	u, err := url.Parse(o.Hub)
	if err != nil || u.Host == "" {
		return "", nil, fmt.Errorf("%q is not the address of a hub: use tls://HOST:PORT or ssh://HOST", o.Hub)
	}
	if u.User != nil && u.Scheme != "ssh" {
		return "", nil, fmt.Errorf("the address of the hub, %s, has a user in it: the hub knows a machine by its key", u.Redacted())
	}
	if (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", nil, fmt.Errorf("the address of the hub, %s, has a path, a query or a fragment, which mean nothing there: use %s://%s", u.Redacted(), u.Scheme, u.Host)
	}
	if (o.CA != "" || o.Fingerprint != "") && u.Scheme != "tls" {
		return "", nil, fmt.Errorf("%s has no certificate: only an address with tls:// can have a fingerprint or a file of CAs", u.Redacted())
	}
	switch u.Scheme {
	case "nats":
		if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return "", nil, fmt.Errorf("%s is not encrypted, which is allowed only on this machine: use tls:// or ssh://", o.Hub)
		}
		return o.Hub, nil, nil
	case "tls":
		c, err := o.tls(u.Hostname())
		return o.Hub, []nats.Option{nats.Secure(c)}, err
	case "ssh":
		if o.Dial == nil {
			return "", nil, fmt.Errorf("%s cannot be used here: this program cannot run ssh", o.Hub)
		}
		return "nats://127.0.0.1", []nats.Option{nats.InProcessServer(dialer{ctx, o.Dial}), nats.Timeout(15 * time.Second)}, nil
	}
	return "", nil, fmt.Errorf("%s: the address of a hub begins with tls://, ssh:// or nats://", u.Redacted())
}

// dialer makes its own connections. nats.go has no other way to connect without a host lookup.
type dialer struct {
	ctx  context.Context
	dial func(context.Context) (net.Conn, error)
}

// InProcessConn implements [nats.InProcessConnProvider].
func (d dialer) InProcessConn() (net.Conn, error) { return d.dial(d.ctx) }

func (o *Options) tls(host string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("read the file of CAs: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("there is no certificate in %s", o.CA)
		}
	}
	if o.Fingerprint == "" {
		return c, nil
	}
	want, err := hex.DecodeString(strings.ReplaceAll(o.Fingerprint, ":", ""))
	if err != nil || len(want) != sha256.Size {
		return nil, fmt.Errorf("%q is not a SHA-256 fingerprint, which has 64 hexadecimal digits", o.Fingerprint)
	}
	// The fingerprint replaces the usual check, unless there is a CA too.
	c.InsecureSkipVerify = o.CA == ""
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if got := sha256.Sum256(s.PeerCertificates[0].Raw); string(got[:]) != string(want) {
			return fmt.Errorf("the hub has another certificate: its fingerprint is %x, and %x is pinned", got, want)
		}
		return nil
	}
	return c, nil
}

// Close ends the wire. Unacknowledged frames will arrive again.
func (w *Wire) Close() {
	if w.nc.IsConnected() {
		w.nc.FlushTimeout(time.Second) // send the last acknowledgment
	}
	w.cancel()
	w.nc.Close()
	w.wg.Wait()
}

// Publish implements [link.Wire].
func (w *Wire) Publish(ctx context.Context, peer, id string, frame []byte) error {
	card, ok := w.card(peer)
	if !ok || peer == w.Name {
		return link.ErrPeer
	}
	sealed, err := w.Key.seal(frameKind, w.Name, card, frame)
	if err != nil {
		return err
	}
	if len(sealed) > MaxPayload-1024 {
		return fmt.Errorf("a frame of %d bytes is larger than a hub accepts", len(frame))
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	// Once the connection has ended, an answer that was not sent yet never arrives.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.mu.Lock()
	conn := w.conn
	w.mu.Unlock()
	defer context.AfterFunc(conn, func() { cancel(nats.ErrDisconnected) })()
	m := nats.NewMsg("tb.m." + peer + "." + w.Name)
	m.Data = sealed
	// The hub compares the ids of all machines, so this one includes both names.
	m.Header.Set(nats.MsgIdHdr, w.Name+"/"+peer+"/"+id)
	r, err := w.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(err, context.Canceled) {
			err = cause
		}
		return fmt.Errorf("frame for %s: %w", peer, w.describe(err))
	}
	var ack struct {
		Error *apiError
		Seq   uint64
	}
	if err := json.Unmarshal(r.Data, &ack); err != nil || ack.Error == nil && ack.Seq == 0 {
		return fmt.Errorf("frame for %s: the hub's answer is not valid: %.80q", peer, r.Data)
	}
	if ack.Error == nil {
		return nil
	}
	switch ack.Error.Description {
	case "maximum messages per subject exceeded":
		return link.ErrFull
	case "maximum bytes exceeded", "maximum messages exceeded":
		return fmt.Errorf("frame for %s: the hub is full (%w)", peer, ack.Error)
	}
	if ack.Error.Code == errResources {
		return fmt.Errorf("frame for %s: the hub's disk is full (%w)", peer, ack.Error)
	}
	return fmt.Errorf("frame for %s: the hub refuses it: %w", peer, ack.Error)
}

// An apiError is an error in an answer of JetStream.
type apiError struct {
	Code        int `json:"err_code"`
	Description string
}

func (e *apiError) Error() string { return e.Description }

// Codes of an apiError.
const (
	errNoConsumer = 10014
	errResources  = 10023
	errNoStream   = 10059
)

// Tell implements [link.Wire].
func (w *Wire) Tell(_ context.Context, peer string, text []byte) error {
	return w.tell(toldKind, peer, text)
}

func (w *Wire) tell(k kind, peer string, text []byte) error {
	card, ok := w.card(peer)
	if !ok {
		return link.ErrPeer
	}
	sealed, err := w.Key.seal(k, w.Name, card, text)
	if err != nil {
		return err
	}
	if err := w.nc.Publish("tb.p."+peer+"."+w.Name, sealed); err != nil {
		return w.describe(err)
	}
	return nil
}

func (w *Wire) card(peer string) (Card, bool) {
	if peer == w.Name {
		return w.Key.Card(peer), true
	}
	c, ok := w.Card(peer)
	return c, ok && c.Name == peer
}

// Next implements [link.Wire].
func (w *Wire) Next(ctx context.Context) (link.Arrival, error) {
	for {
		if a, ok := w.pop(); ok {
			return a, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return link.Arrival{}, ctx.Err()
		}
	}
}

func (w *Wire) pop() (a link.Arrival, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.changed:
		w.changed = false
	case len(w.told) > 0 && (w.frame == nil || !w.heard): // alternate, so that frequent texts do not block frames
		a, w.told, w.heard = w.told[0], w.told[1:], true
	case w.frame != nil:
		a, w.frame, w.heard = *w.frame, nil, false
	default:
		return a, false
	}
	return a, true
}

// keep stores a text, replacing an earlier one of the same machine. The caller holds the mutex.
func (w *Wire) keep(a link.Arrival) {
	if i := slices.IndexFunc(w.told, func(b link.Arrival) bool { return b.From == a.From }); i >= 0 {
		w.told[i] = a
	} else if len(w.told) < maxTold {
		w.told = append(w.told, a)
	}
}

// State implements [link.Wire].
func (w *Wire) State() link.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// update changes what Next and State return.
func (w *Wire) update(change func()) {
	w.mu.Lock()
	old := w.state
	change()
	now := w.state
	old.Waiting, now.Waiting = 0, 0 // ignore it: it changes with each frame
	w.changed = w.changed || old != now
	w.mu.Unlock()
	notify(w.wake)
}

// notify wakes the current or next receiver of c.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *Wire) connected() {
	w.update(func() {
		w.ended()
		w.conn, w.ended = context.WithCancel(context.Background())
		w.state.Connected, w.state.Since, w.state.Err = true, time.Now().UTC(), ""
	})
	notify(w.relinked)
}

func (w *Wire) disconnected(err error) {
	w.update(func() {
		w.ended()
		if w.state.Connected {
			w.state.Connected, w.state.Since, w.state.Waiting = false, time.Now().UTC(), -1
			w.state.Err = "the connection to the hub was lost"
		}
		if err != nil {
			w.state.Err = w.describe(err).Error()
		}
	})
}

func (w *Wire) asyncError(err error) {
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		w.update(func() { w.denied, w.state.Err = err, w.describe(err).Error() })
	case unknown(err):
		w.disconnected(err)
	}
}

// unknown reports whether an error means that the hub does not know this machine, or no longer does.
func unknown(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked)
}

// fail records why the queue cannot be read.
func (w *Wire) fail(err error) {
	w.update(func() {
		if w.denied != nil { // the refusal causes the timeout in err
			err, w.denied = w.denied, nil
		}
		w.state.Err, w.state.Waiting = w.describe(err).Error(), -1
	})
}

// describe adds advice to an error.
func (w *Wire) describe(err error) error {
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "failed to get in-process connection: ") {
		err = inner // from Options.Dial; the library has no type for it
	}
	add := func() string {
		return "ask its administrator to type: teambridge-hub add " + w.Key.Card(w.Name).String()
	}
	var api *apiError
	var op *net.OpError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &authority):
		return fmt.Errorf("the certificate of the hub is not trusted here: give the file of its CA, or its fingerprint: teambridge link hub %s --trust FILE (%w)", w.Hub, err)
	case unknown(err):
		return fmt.Errorf("the hub does not know this machine: %s (%w)", add(), err)
	case errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("the hub does not accept this machine as %s: perhaps the hub has its key under another name; %s (%w)", w.Name, add(), err)
	case errors.As(err, &api) && (api.Code == errNoConsumer || api.Code == errNoStream):
		return fmt.Errorf("the hub has no queue for this machine: %s (%w)", add(), err)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("the hub stores nothing now: its administrator finds the reason in its log (%w)", err)
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionReconnecting):
		return fmt.Errorf("there is no connection to the hub (%w)", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("the hub does not answer (%w)", err)
	case errors.As(err, &op):
		return fmt.Errorf("the hub cannot be reached: %s: %w", op.Op, op.Err) // without ports, which differ each time
	}
	return err
}
