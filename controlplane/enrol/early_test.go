package enrol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/meshgate/meshgate/controlplane/turns"
)

// counting is a body that counts how much of it was read.
type counting struct {
	*strings.Reader
	read int
}

// Read implements io.Reader.
func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

// TestTokenComesBeforeTheBody: without a valid token in the header, large bodies are not
// read or parsed, whatever the header says.
func TestTokenComesBeforeTheBody(t *testing.T) {
	s := newMeshServer(t)
	gateway, err := s.Tokens.Gateway("default", "gw", 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	forged := gateway[:len(gateway)-4] + "AAAA"
	large := func(head string) string {
		return head + strings.Repeat(`,"x":"`+strings.Repeat("y", 100)+`"`, 9000) + "}"
	}
	proxy, instance := large(`{"mesh":"default","name":"web-1","dataplaneResource":""`), large(good[:len(good)-1])
	for name, test := range map[string]struct {
		token, body, says string
		status            int
		whole             bool
	}{
		"a proxy's":         {"default/web-1/web", proxy, "", 422, true},
		"a gateway's":       {gateway, instance, "", 422, true},
		"none of a proxy":   {"x", proxy, "the dataplane token is not valid", 401, false},
		"none of a gateway": {forged, instance, "the node token", 401, false},
		"none at all":       {"", proxy, "too large", 413, false},
	} {
		body := &counting{Reader: strings.NewReader(test.body)}
		r := httptest.NewRequest(http.MethodPost, Path+"?fieldValidation=strict", body)
		if test.token != "" {
			r.Header.Set("Authorization", "Bearer "+test.token)
		}
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		if whole := body.Len() == 0; rec.Code != test.status || whole != test.whole || !strings.Contains(rec.Body.String(), test.says) {
			t.Errorf("%s: %d %.200s, read %d of %d", name, rec.Code, rec.Body, body.read, len(test.body))
		}
		if !test.whole && body.read > maxAnonymous+4096 {
			t.Errorf("%s: %d bytes were read", name, body.read)
		}
	}
}

// TestBodyThatBreaksOff: anybody can send one, so it is no failure of the control plane. Only a
// node that is known and slow is told to come again, because a refusal would end its agent.
func TestBodyThatBreaksOff(t *testing.T) {
	s := newMeshServer(t)
	gateway, err := s.Tokens.Gateway("default", "gw", 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	malformed, late := errors.New("malformed chunked encoding"), fmt.Errorf("read: %w", os.ErrDeadlineExceeded)
	for name, test := range map[string]struct {
		token  string
		err    error
		status int
		says   string
	}{
		"malformed, of nobody":          {"", malformed, 422, "broke off"},
		"malformed, of a stranger":      {"x", malformed, 401, "the dataplane token is not valid"},
		"malformed, of a gateway":       {gateway, malformed, 422, "broke off"},
		"malformed, of a proxy":         {"default/web-1/web", malformed, 422, "broke off"},
		"late, of nobody":               {"", late, 422, "broke off"},
		"late, of a stranger":           {"x", late, 401, "the dataplane token is not valid"},
		"late, of a gateway":            {gateway, late, 503, "try again"},
		"late, of a proxy":              {"default/web-1/web", late, 503, "try again"},
		"ended in its midst, of nobody": {"", io.ErrUnexpectedEOF, 422, "broke off"},
	} {
		r := httptest.NewRequest(http.MethodPost, Path, io.MultiReader(strings.NewReader(`{"mesh":`), iotest.ErrReader(test.err)))
		if test.token != "" {
			r.Header.Set("Authorization", "Bearer "+test.token)
		}
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		if rec.Code != test.status || !strings.Contains(rec.Body.String(), test.says) {
			t.Errorf("%s: %d %.200s, want %d %q", name, rec.Code, rec.Body, test.status, test.says)
		}
	}
}

// TestNodeHasLeft: an enrolment that ends because nobody waits for it is no error of the server.
func TestNodeHasLeft(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	rec := httptest.NewRecorder()
	newMeshServer(t).fail(rec, httptest.NewRequestWithContext(ctx, http.MethodPost, Path, nil), fmt.Errorf("read: %w", context.Canceled))
	if rec.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// TestFewParseAtOnce: a parsed body takes many times its size. So while the maximum number
// of bodies is being parsed, a further request waits until one of them is done.
func TestFewParseAtOnce(t *testing.T) {
	s := newMeshServer(t)
	body := encode(t, map[string]any{"mesh": "default", "name": "web-1", "dataplaneToken": "default/web-1/web", "dataplaneResource": dataplaneYAML})
	after := ""
	ask := func(ctx context.Context) int {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodPost, "https://localhost:5678"+Path, strings.NewReader(body)))
		after = rec.Header().Get("Retry-After")
		return rec.Code
	}
	for range maxParses {
		if !parses.TryEnter() {
			t.Fatal("somebody has a turn")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := ask(ctx); code != http.StatusServiceUnavailable || after != "1" {
		t.Errorf("who has gone is answered %d, Retry-After %q", code, after)
	}
	for name, fail := range map[string]func(http.ResponseWriter, *http.Request, error){"a gateway": s.fail, "a proxy": failProxy} {
		rec := httptest.NewRecorder()
		fail(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, nil), turns.ErrFull)
		if after := rec.Header().Get("Retry-After"); rec.Code != http.StatusServiceUnavailable || after != "1" {
			t.Errorf("%s that is one too many is answered %d, Retry-After %q", name, rec.Code, after)
		}
	}
	patient := make(chan int, 1)
	go func() { patient <- ask(t.Context()) }()
	for range maxParses {
		parses.Leave()
	}
	if code := <-patient; code != http.StatusOK {
		t.Errorf("who waited is answered %d", code)
	}
	for range maxParses {
		if !parses.TryEnter() {
			t.Error("a place is not given back")
		}
	}
	for range maxParses {
		parses.Leave()
	}
}
