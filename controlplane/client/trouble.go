package client

import (
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxAfter bounds what is believed of a Retry-After, in seconds.
const maxAfter = 3600

// Refusal is an answer of the API with an error status.
type Refusal struct {
	Status int
	// Text says why, in the words of the API or in more helpful ones; Said is in its words.
	Text, Said string
	// After is the time after which the API wants to be asked again, if it has said one.
	After time.Duration
	// Fields are the members of an entity that the refusal is about, if the API names some.
	Fields map[string]any
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// where names the API, and the source of its address unless the user has given it.
func (c *Client) where() string {
	if c.o.Socket != "" {
		return c.o.Socket
	}
	if c.o.Address == "" && c.o.Whence != "" {
		return fmt.Sprintf("%s (%s)", c.base, c.o.Whence)
	}
	return c.base.String()
}

// correct says what to do if nobody answers at an address, or somebody else.
func (c *Client) correct() string {
	switch {
	case c.o.Address != "":
		return "correct --address"
	case c.o.Socket != "":
		return "say where it is with --state-dir"
	case c.o.Remedy != "":
		return c.o.Remedy
	}
	return "say where it is with --address"
}

// stranger returns the error for an answer that no control plane gives.
func (c *Client) stranger(why string) error {
	return fmt.Errorf("what answers at %s is not a control plane, %s: %s (the mesh API is on port 5681, the administration API on 8001 and 8444 if nothing else is set)", c.where(), why, c.correct())
}

// unreached returns the error for a call without an answer.
func (c *Client) unreached(err error, limit time.Duration) error {
	if told := c.untrusted(err); told != nil {
		return told
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("%s does not speak TLS: write http:// in --address, or the port that does (8444 if nothing else is set)", c.where())
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("the name %s is not known here (%s): correct --address", Plain(unknown.Name), unknown.Err)
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s does not answer in time (%s): look whether the control plane is stopped, hangs or is short of CPU (its state with ps, its log), or %s", c.where(), limit, c.correct())
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nobody listens at %s: start the control plane, or %s", c.where(), c.correct())
	}
	if code, ok := errors.AsType[syscall.Errno](err); ok && (code == syscall.EHOSTUNREACH || code == syscall.ENETUNREACH) {
		return fmt.Errorf("there is no way to %s (%w): %s", c.where(), code, c.correct())
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%s ended the connection without an answer: ask again if the control plane is just ending or starting, or %s", c.where(), c.correct())
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err // the outer error repeats the request
	}
	return c.stranger(Plain(err.Error()))
}

// untrusted says why a certificate is not trusted, or returns nil for other errors.
func (c *Client) untrusted(err error) error {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%s shows a certificate that %s: name the ca.pem of this control plane's state directory with --ca-cert-file", c.where(), c.unsigned())
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		names := slices.Clone(e.Certificate.DNSNames)
		for _, ip := range e.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return fmt.Errorf("the certificate at %s is for %s: use one of these in --address, or add %s to dataPlane.names of the control plane",
			c.where(), Plain(strings.Join(names, ", ")), Plain(e.Host))
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if e.Reason == x509.Expired {
			return fmt.Errorf("the certificate at %s is not valid at this time (from %s to %s): look at the clocks of both machines; if they are right, start the control plane again, which makes a new one",
				c.where(), e.Cert.NotBefore.UTC().Format("2006-01-02T15:04:05Z"), e.Cert.NotAfter.UTC().Format("2006-01-02T15:04:05Z"))
		}
		return fmt.Errorf("the certificate at %s is not valid (%w): correct --address", c.where(), e)
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the certificate at %s is not valid (%s): correct --address or --ca-cert-file", c.where(), Plain(e.Err.Error()))
	}
	return nil
}

// unsigned says who should have signed a certificate and has not.
func (c *Client) unsigned() string {
	if c.o.CAFile == "" {
		return "no authority of this machine has signed"
	}
	return c.o.CAFile + " did not sign"
}

// plainOnTLS is the answer of Go's servers to a request without TLS at a port with TLS.
const plainOnTLS = "Client sent an HTTP request to an HTTPS server"

// nowhere lists the messages for unknown paths, of the administration API and of gateways.
// The mesh API answers them without a document.
var nowhere = []string{"", "Not found", "no Route matched with those values"}

// refused explains an answer with an error status. Each API has its own error document.
func (c *Client) refused(resp *http.Response, path string, text []byte) error {
	var doc struct {
		Message, Detail string
		Fields          map[string]any
		Parameters      []struct{ Field, Reason string } `json:"invalid_parameters"`
	}
	_ = json.Unmarshal(text, &doc) // a body that is not a document says nothing
	var reasons []string
	for _, p := range doc.Parameters {
		reasons = append(reasons, p.Field+": "+p.Reason)
	}
	said := Plain(cmp.Or(strings.Join(reasons, "; "), doc.Detail, doc.Message, http.StatusText(resp.StatusCode)))
	refusal := func(format string, args ...any) error {
		return &Refusal{Status: resp.StatusCode, Text: fmt.Sprintf(format, args...), Said: said, After: after(resp.Header.Get("Retry-After")), Fields: doc.Fields}
	}
	switch status := resp.StatusCode; {
	case status == http.StatusBadRequest && strings.Contains(string(text), plainOnTLS):
		return refusal("%s speaks TLS only: write https:// in --address", c.where())
	case status/100 == 3:
		return c.stranger("it sends callers elsewhere")
	case status == http.StatusUnauthorized && c.token == "":
		return refusal("%s wants a token: name a file that holds it with --token-file (the control plane has it as admin.token or admin.tokenFile)", c.where())
	case status == http.StatusUnauthorized && c.o.TokenFile == "":
		return refusal("%s does not take the token (%s): it needs another one", c.where(), said)
	case status == http.StatusUnauthorized:
		return refusal("%s does not take the token of %s (%s): put the control plane's (admin.token or admin.tokenFile) there, or name another file with --token-file", c.where(), c.o.TokenFile, said)
	case status == http.StatusNotFound && doc.Detail == "" && slices.Contains(nowhere, doc.Message):
		return refusal("there is no %s at %s: %s (the mesh API is on port 5681 and has everything; the administration API on 8001 and 8444 has no keys)", Plain(path), c.where(), c.correct())
	}
	return refusal("the control plane refuses that (%d): %s", resp.StatusCode, said)
}

// after reads a Retry-After (RFC 9110 section 10.2.3).
func after(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return max(0, time.Duration(min(seconds, maxAfter))*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, min(time.Until(at), maxAfter*time.Second))
	}
	return 0
}
