package httpkit

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// TestShutdownLetsRequestsFinish ends the server while a request runs.
func TestShutdownLetsRequestsFinish(t *testing.T) {
	running, finish := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(running)
		<-finish
		WriteMessage(w, 200, "done")
	})
	ctx, cancel := context.WithCancel(t.Context())
	ln := listen(t)
	ended := make(chan error, 1)
	go func() { ended <- NewServer("test", h, slog.New(slog.DiscardHandler), Limits{}).Serve(ctx, ln) }()
	answer := make(chan string, 1)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	go func() {
		resp, err := (&http.Client{Transport: transport}).Get("http://" + ln.Addr().String() + "/")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer func() { _ = resp.Body.Close() }()
		b, _ := io.ReadAll(resp.Body)
		answer <- string(b)
	}()
	<-running
	cancel()
	close(finish)
	if got := <-answer; got != `{"message":"done"}` {
		t.Errorf("answer %q", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// TestShutdownEndsAfterGrace has a request that never ends by itself.
func TestShutdownEndsAfterGrace(t *testing.T) {
	running := make(chan struct{})
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(running)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	ln := listen(t)
	ended := make(chan error, 1)
	go func() {
		ended <- NewServer("test", h, slog.New(slog.DiscardHandler), Limits{Grace: time.Millisecond}).Serve(ctx, ln)
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-running
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestObserveLogsOneLineWithoutSecrets(t *testing.T) {
	var log bytes.Buffer
	router := NewRouter([]Endpoint{{Method: "GET", Pattern: "/tokens/{key}", Auth: Open, Handler: func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("key") == "panic" {
			panic("secret-free")
		}
		EntryOf(r.Context()).Revision = 7
		WriteMessage(w, 200, "ok")
	}}}, RefuseMessage)
	h := Observe(router, slog.New(slog.NewJSONHandler(&log, nil)))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/tokens/s3cr3t/?code=s3cr3t", nil))
	line := log.String()
	if strings.Count(line, "\n") != 1 || strings.Contains(line, "s3cr3t") {
		t.Errorf("log %q", line)
	}
	for _, want := range []string{`"pattern":"/tokens/{key}"`, `"status":200`, `"revision":7`, `"request_id":"` + w.Header().Get(HeaderRequestID)} {
		if !strings.Contains(line, want) {
			t.Errorf("log %q lacks %q", line, want)
		}
	}
	log.Reset()
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/tokens/panic", nil))
	if w.Code != 500 || w.Body.String() != `{"message":"An unexpected error occurred"}` || !strings.Contains(log.String(), "panic: secret-free") {
		t.Errorf("got %d %s, log %s", w.Code, w.Body, log.String())
	}
}

func TestRequestID(t *testing.T) {
	for given, kept := range map[string]bool{"abc-1_X": true, "": false, "a b": false, "x\ny": false, strings.Repeat("a", 65): false} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header[HeaderRequestID] = []string{given}
		if got := requestID(r); (got == given) != kept || got == "" {
			t.Errorf("%q becomes %q", given, got)
		}
	}
}

func TestRouterRefusesUndeclaredAuthorisation(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an endpoint without authorisation was accepted")
		}
	}()
	NewRouter([]Endpoint{{Method: "GET", Pattern: "/"}}, nil)
}
