package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/localsocket"
)

// Limits of a call: the time that the control plane may take, which is longer if it has to do
// something, and the size of its answer; and the size of a file with a token.
const (
	patience = 30 * time.Second
	// readPatience is longer than a proxy may take to answer the control plane.
	readPatience = 12 * time.Second
	// quiet is the time after which the user is told that the control plane does not answer
	// yet. Without such a message, the command would seem to hang.
	quiet = 3 * time.Second

	// kept is how many connections are kept for further calls.
	kept = 32

	maxAnswer = 128 << 20
	maxToken  = 64 << 10
)

// Options identify a control plane and the caller.
type Options struct {
	// Address is the base URL of one of its APIs. If it is empty, Assumed is used; Whence
	// says where Assumed comes from.
	Address, Assumed, Whence string
	// Socket is the path of a local socket that is dialled instead of an address.
	Socket string
	// Remedy says what to do if nobody answers at Assumed, or somebody else.
	Remedy string
	// CAFile has the authorities for https:// addresses; if it is empty, the system's are
	// used.
	CAFile string
	// Waiting, if set, is called with a text when a call takes long. It is not called again
	// before a call was answered, however many calls wait.
	Waiting func(text string)
	// TokenFile has the token for the API; if it is empty, Token is sent, if there is one.
	// Whoever sets Token has it from the user for this address.
	TokenFile, Token string
	// Header is added to every request.
	Header http.Header
	// Spelling gives the flags of a command that calls them otherwise: its names by
	// --address, --ca-cert-file and --token-file. It is for errors only.
	Spelling map[string]string
}

// spelled returns an error in which flags have the names of the command.
func (o Options) spelled(err error) error {
	if err == nil || len(o.Spelling) == 0 || errors.Is(err, context.Canceled) {
		return err
	}
	text := err.Error()
	for name, own := range o.Spelling {
		text = strings.ReplaceAll(text, name, own)
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		own := *refusal
		own.Text = text
		return &own
	}
	return errors.New(text)
}

// Client calls one API. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	base  *url.URL
	token string
	o     Options
	told  atomic.Bool // the user was told that an answer is awaited
}

// New reads the files that the options name. Its errors are about the flags; it does not call
// the API.
func New(o Options) (*Client, error) {
	c, err := open(o)
	return c, o.spelled(err)
}

func open(o Options) (*Client, error) {
	text := cmp.Or(o.Address, o.Assumed)
	if o.Socket != "" {
		text = "http://localhost"
	}
	base, err := parse(text)
	if err != nil {
		return nil, err
	}
	c := &Client{base: base, o: o, token: o.Token}
	if o.TokenFile != "" {
		if c.token, err = readToken(o.TokenFile); err != nil {
			return nil, err
		}
	}
	if c.token != "" && base.Scheme == "http" && !isLoopback(base.Hostname()) {
		return nil, fmt.Errorf("the token of --token-file could be overheard on the way to %s: use https:// in --address (the port is admin.tlsPort of the control plane, 8444 if nothing else is set)", base)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: kept}
	if o.Socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return localsocket.Dial(ctx, o.Socket) }
	}
	if o.CAFile != "" {
		if base.Scheme != "https" {
			return nil, fmt.Errorf("--ca-cert-file means nothing for %s, which shows no certificate: use https:// in --address, or leave --ca-cert-file out", base)
		}
		if transport.TLSClientConfig, err = trusting(o.CAFile); err != nil {
			return nil, err
		}
	}
	// Redirects are not followed, because the token is only for this host.
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// parse checks an address. Its errors do not repeat an invalid address that may contain a
// password.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(text, "/"))
	switch {
	case err == nil && u.User != nil || err != nil && strings.Contains(text, "@"):
		return nil, errors.New("--address must not hold a user or a password, which everybody on this machine can read: put the token into a file and name that with --token-file")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("--address %q is no URL that begins with http:// or https:// and a host", Plain(text))
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("--address %q is more than the base of an API: leave out what begins with ? or #", Plain(text))
	}
	return u, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// readToken returns the token in a file, without the line break at its end.
func readToken(name string) (string, error) {
	f, err := os.Open(name) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxToken))
	token := strings.TrimRight(string(raw), "\r\n")
	switch {
	case err != nil:
		return "", fmt.Errorf("--token-file: %w", err)
	case token == "":
		return "", fmt.Errorf("--token-file: %s is empty", name)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", fmt.Errorf("--token-file: %s holds more than a token: one line without blanks is wanted", name)
	}
	return token, nil
}

// trusting returns a TLS configuration that trusts the authorities in a file.
func trusting(name string) (*tls.Config, error) {
	pem, err := os.ReadFile(name) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("--ca-cert-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca-cert-file: %s holds no certificate: the control plane's is ca.pem in its state directory", name)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// Get is [Client.Call] without a body.
func (c *Client) Get(ctx context.Context, path string, query url.Values, answer any) error {
	return c.Call(ctx, http.MethodGet, path, query, nil, answer)
}

// Call sends a request for a path, which must be escaped, and reads the JSON answer into
// answer; nil if no content is expected. body is sent as JSON unless it is nil. If the query
// has wait, the answer may take that much longer. A refusal by the API is a [Refusal].
func (c *Client) Call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	return c.o.spelled(c.call(ctx, method, path, query, body, answer))
}

func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	wait, _ := time.ParseDuration(query.Get("wait")) // the API refuses an invalid duration
	limit := wait + patience
	if method == http.MethodGet {
		limit = wait + readPatience
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer c.tellWaiting(wait+quiet, limit)()
	resp, err := c.send(bounded, method, path, query, body)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return c.unreached(err, limit)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	c.told.Store(false)
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return c.unreached(err, limit)
	case len(text) > maxAnswer:
		return fmt.Errorf("the answer of %s is larger than %d bytes", c.where(), maxAnswer)
	case resp.StatusCode/100 != 2:
		return c.refused(resp, path, text)
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return c.stranger("its answer is not of the form that is expected")
	}
	return nil
}

// tellWaiting tells the user after a while what is being waited for, unless done is called
// before.
func (c *Client) tellWaiting(after, limit time.Duration) (done func()) {
	if c.o.Waiting == nil {
		return func() {}
	}
	timer, told := time.NewTimer(after), make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-timer.C:
			if !c.told.CompareAndSwap(false, true) {
				return
			}
			c.o.Waiting(fmt.Sprintf("%s has not answered for %s; it is waited for until %s are over (Ctrl-C ends that)", c.where(), after, limit))
		case <-stop:
		}
	}()
	return func() {
		timer.Stop()
		close(stop)
		<-told
	}
}

func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	target := c.base.String() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	content := io.Reader(http.NoBody)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	for name, values := range c.o.Header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.http.Do(req)
}

// Close closes the idle connections that are kept for further calls.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Plain makes a text of unknown origin safe for a terminal: it becomes one line without
// control characters.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}
