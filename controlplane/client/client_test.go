package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "a-secret-of-administrators"

// file makes a file with a text.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestNew: each invalid flag is refused by name before the API is called.
func TestNew(t *testing.T) {
	token, ca := file(t, secret+"\n"), file(t, "no PEM")
	for name, tc := range map[string]struct {
		o    Options
		want string
	}{
		"no URL":                 {Options{Address: "127.0.0.1:8001"}, `--address "127.0.0.1:8001" is no URL that begins with http:// or https://`},
		"another scheme":         {Options{Address: "file:///x"}, `--address "file:///x" is no URL`},
		"no host":                {Options{Address: "http://:8001"}, `--address "http://:8001" is no URL`},
		"a query":                {Options{Address: "http://h/?x=1"}, `leave out what begins with ? or #`},
		"a password":             {Options{Address: "https://u:" + secret + "@h"}, "--address must not hold a user or a password"},
		"a password, no URL":     {Options{Address: "https://u:" + secret + "@h:x"}, "--address must not hold a user or a password"},
		"a cursor moves":         {Options{Address: "h\x1b[2J"}, `--address "h?[2J" is no URL`},
		"no file with a token":   {Options{Address: "http://127.0.0.1", TokenFile: token + "x"}, "--token-file: open "},
		"an empty token":         {Options{Address: "http://127.0.0.1", TokenFile: file(t, "\n")}, " is empty"},
		"more than a token":      {Options{Address: "http://127.0.0.1", TokenFile: file(t, "token: "+secret)}, "holds more than a token"},
		"a directory":            {Options{Address: "http://127.0.0.1", TokenFile: t.TempDir()}, "--token-file: read "},
		"a token in clear":       {Options{Address: "http://cp.example", TokenFile: token}, "could be overheard on the way to http://cp.example: use https:// in --address"},
		"no file of authorities": {Options{Address: "https://h", CAFile: ca + "x"}, "--ca-cert-file: open "},
		"no authorities":         {Options{Address: "https://h", CAFile: ca}, "holds no certificate: the control plane's is ca.pem in its state directory"},
		"authorities of nobody":  {Options{Assumed: "http://127.0.0.1:5681", CAFile: ca}, "--ca-cert-file means nothing for http://127.0.0.1:5681"},
	} {
		_, err := New(tc.o)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, address := range []string{"http://127.0.0.1:1", "http://localhost:1/", "http://[::1]:1", "https://cp.example"} {
		if _, err := New(Options{Address: address, TokenFile: token}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// serve makes a server that always answers with a status and a body, and whose log is
// discarded.
func serve(t *testing.T, secure bool, status int, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// signer makes a file with the certificate of a server.
func signer(t *testing.T, s *httptest.Server) string {
	t.Helper()
	return file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
}

// talk answers every connection with a text, whatever the request is.
func talk(t *testing.T, text string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1)) // wait for the request
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return "http://" + ln.Addr().String()
}

// TestTroubles: every error is one sentence that says what helps. It is never the bare error
// of a connection, and never contains the token.
func TestTroubles(t *testing.T) {
	plain, secure := serve(t, false, 200, `{"items":[]}`), serve(t, true, 200, `{"items":[]}`)
	gone := serve(t, false, 200, "")
	gone.Close()
	token := file(t, secret)
	own := signer(t, secure)
	other := signer(t, serveWith(t, time.Now().Add(time.Hour)))
	over := serveWith(t, time.Now().Add(-time.Hour))
	port := func(s *httptest.Server) string { _, p, _ := net.SplitHostPort(s.Listener.Addr().String()); return p }
	for name, tc := range map[string]struct {
		o    Options
		want string
	}{
		"nobody":                       {Options{Address: gone.URL}, "nobody listens at " + gone.URL + ": start the control plane, or correct --address"},
		"nobody, by itself":            {Options{Assumed: gone.URL, Whence: "mesh.port"}, "nobody listens at " + gone.URL + " (mesh.port): start the control plane, or say where it is with --address"},
		"nobody, and a remedy":         {Options{Assumed: gone.URL, Whence: "mesh.port", Remedy: "try --this"}, "start the control plane, or try --this"},
		"no name":                      {Options{Address: "http://nowhere.invalid:1"}, "the name nowhere.invalid is not known here"},
		"another CA":                   {Options{Address: secure.URL, CAFile: other}, "did not sign: name the ca.pem of this control plane's state directory with --ca-cert-file"},
		"no CA":                        {Options{Address: secure.URL}, "shows a certificate that no authority of this machine has signed: name the ca.pem"},
		"another name":                 {Options{Address: "https://localhost:" + port(secure), CAFile: own}, "is for example.com, *.example.com, 127.0.0.1, ::1: use one of these in --address, or add localhost to dataPlane.names"},
		"a certificate that has ended": {Options{Address: over.URL, CAFile: signer(t, over)}, "is not valid at this time (from 20"},
		"TLS to none":                  {Options{Address: "https://" + plain.Listener.Addr().String()}, "does not speak TLS: write http:// in --address"},
		"none to TLS":                  {Options{Address: "http://" + secure.Listener.Addr().String()}, "speaks TLS only: write https:// in --address"},
		"no token":                     {Options{Address: serve(t, false, 401, `{"message":"No"}`).URL}, "wants a token: name a file that holds it with --token-file"},
		"another token":                {Options{Address: serve(t, false, 401, `{"message":"No"}`).URL, TokenFile: token}, "does not take the token of " + token + " (No): put the control plane's"},
		"another path":                 {Options{Address: serve(t, false, 404, `{"message":"Not found"}`).URL}, "there is no /x at http://127.0.0.1:"},
		"another page":                 {Options{Address: serve(t, false, 404, "<html>").URL}, "there is no /x at http://127.0.0.1:"},
		"a gateway":                    {Options{Address: serve(t, false, 404, `{"message":"no Route matched with those values"}`).URL}, "correct --address (the mesh API is on port 5681 and has everything"},
		"a thing that is not there": {Options{Address: serve(t, false, 404, `{"title":"x","detail":"there is no such\nkey"}`).URL},
			"the control plane refuses that (404): there is no such key"},
		"parameters": {Options{Address: serve(t, false, 400, `{"detail":"d","invalid_parameters":[{"field":"mesh","reason":"is needed"},{"field":"kind","reason":"is none"}]}`).URL},
			"the control plane refuses that (400): mesh: is needed; kind: is none"},
		"a message":        {Options{Address: serve(t, false, 507, `{"message":"full"}`).URL}, "refuses that (507): full"},
		"no reason":        {Options{Address: serve(t, false, 503, "").URL}, "refuses that (503): Service Unavailable"},
		"elsewhere":        {Options{Address: serve(t, false, 302, "").URL, TokenFile: token}, "is not a control plane, it sends callers elsewhere: correct --address"},
		"no JSON":          {Options{Address: serve(t, false, 200, "<html>").URL}, "is not a control plane, its answer is not of the form that is expected: correct --address"},
		"other JSON":       {Options{Address: serve(t, false, 200, `{"message":"healthy"}`).URL}, "is not a control plane, its answer is no list: correct --address"},
		"the same page":    {Options{Address: serve(t, false, 200, `{"items":[],"next":"/x"}`).URL}, "the next page of its list is not understood"},
		"no page":          {Options{Address: serve(t, false, 200, `{"items":[],"next":":"}`).URL}, "the next page of its list is not understood"},
		"no HTTP":          {Options{Address: talk(t, "-ERR unknown command\r\n")}, "is not a control plane, net/http: "},
		"no answer at all": {Options{Address: talk(t, "")}, "ended the connection without an answer"},
	} {
		c, err := New(tc.o)
		if err != nil {
			t.Fatal(name, err)
		}
		_, err = Read[int](t.Context(), c, "/x", nil, true)
		c.Close()
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, err := New(Options{Address: secure.URL, CAFile: own})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := Read[int](t.Context(), c, "/x", nil, true); err != nil {
		t.Error(err)
	}
}

// serveWith makes a server with its own certificate, which ends at a time.
func serveWith(t *testing.T, end time.Time) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t, end)}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestRead: pages of both forms are read, the first or all, with only their query and with
// the token.
func TestRead(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization")+" "+r.RequestURI)
		switch r.URL.Query().Get("offset") {
		case "":
			_, _ = io.WriteString(w, `{"data":[1],"next":"https://elsewhere.example/y?offset=2","mark":"m","oldest":1}`)
		case "2":
			_, _ = io.WriteString(w, `{"items":[2],"next":null,"mark":"n","oldest":7}`)
		}
	}))
	defer s.Close()
	c, err := New(Options{Address: s.URL + "/", TokenFile: file(t, secret+"\r\n")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, err := Read[int](t.Context(), c, "/x", url.Values{"size": {"1"}}, true)
	if err != nil || len(all.Items) != 2 || all.Items[1] != 2 || all.Mark != "m" || all.Oldest != 7 {
		t.Errorf("%+v, %v", all, err)
	}
	first, err := Read[int](t.Context(), c, "/x", nil, false)
	if err != nil || len(first.Items) != 1 || first.Oldest != 1 {
		t.Errorf("%+v, %v", first, err)
	}
	if got, want := strings.Join(asked, "\n"), strings.ReplaceAll("T /x?size=1\nT /x?offset=2\nT /x", "T", "Bearer "+secret); got != want {
		t.Errorf("asked\n%s", got)
	}
}

// TestCall: the body and the escaped path are sent unchanged, and a refusal can be
// recognised.
func TestCall(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.RequestURI != "/keys/a%2F..%2Fb/rotate?force=true" || string(body) != `{"a":1}` || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"detail":"`+r.RequestURI+`"}`)
		}
	}))
	defer s.Close()
	c, err := New(Options{Address: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call(t.Context(), http.MethodPost, "/keys/a%2F..%2Fb/rotate", url.Values{"force": {"true"}}, map[string]int{"a": 1}, nil); err != nil {
		t.Error(err)
	}
	if r, ok := errors.AsType[*Refusal](c.Get(t.Context(), "/keys", nil, nil)); !ok || r.Status != http.StatusConflict {
		t.Errorf("%+v", r)
	}
}

// TestPatience: an answer may take as long as the request asked to wait, and some more time;
// then the call is given up. A caller that gives up gets the error of its context.
func TestPatience(t *testing.T) {
	for name, tc := range map[string]struct {
		wait string
		want time.Duration
	}{"at once": {"", readPatience}, "when there is news": {"25s", readPatience + 25*time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var said []string
			var after time.Duration
			c, err := New(Options{Address: "http://127.0.0.1:1", Waiting: func(text string) { said, after = append(said, text), time.Since(begin) }})
			if err != nil {
				t.Fatal(err)
			}
			c.http.Transport = silent{}
			err = c.Get(t.Context(), "/x", url.Values{"wait": {tc.wait}}, nil)
			if took := time.Since(begin); took != tc.want || err == nil || !strings.Contains(err.Error(), "does not answer in time") {
				t.Errorf("%s: %v after %s", name, err, took)
			}
			if len(said) != 1 || !strings.HasPrefix(said[0], "http://127.0.0.1:1 has not answered for ") || after != tc.want-readPatience+quiet {
				t.Errorf("%s: after %s: %q", name, after, said)
			}
			if took := calling(t, c); took != patience {
				t.Errorf("something to do: given up after %s", took)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := c.Get(ctx, "/x", nil, nil); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// calling returns how long a call that changes something waits.
func calling(t *testing.T, c *Client) time.Duration {
	begin := time.Now()
	if err := c.Call(t.Context(), http.MethodPost, "/x", nil, nil, nil); err == nil {
		t.Error("there is an answer")
	}
	return time.Since(begin)
}

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestMuch: an endless answer does not exhaust the memory.
func TestMuch(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for block := bytes.Repeat([]byte("x"), 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	c, err := New(Options{Address: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Get(t.Context(), "/x", nil, nil); err == nil || !strings.Contains(err.Error(), "is larger than 134217728 bytes") {
		t.Error(err)
	}
}
