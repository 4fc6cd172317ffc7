package adminlink

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// anyToken accepts all tokens and reports which came.
type anyToken chan string

func (a anyToken) Authenticate(_ context.Context, _, token string) (time.Time, error) {
	a <- token
	return time.Time{}, nil
}

// TestAgainWhileALinkIsMade: a token that is replaced while a link is opened with it does
// not stay on that link.
func TestAgainWhileALinkIsMade(t *testing.T) {
	came := make(anyToken, 16)
	w := newWorld(t, Options{Auth: came})
	c := w.client("m.a", text("here"))
	var read atomic.Int32
	c.Token = func() (string, error) {
		if read.Add(1) == 1 {
			c.Again() // the token is replaced after it was read
			return "old", nil
		}
		return "new", nil
	}
	run(t, c)
	late := time.After(patience)
	for token := ""; token != "new"; {
		select {
		case token = <-came:
		case <-late:
			t.Fatalf("the link stays with %q", token)
		}
	}
}

// TestEnvoyThatHangs: an agent whose Envoy does not answer reports this before the control
// plane gives up, so that the link stays for other questions.
func TestEnvoyThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		conn, agent := net.Pipe()
		l := &link{node: "m.a", token: "token of m.a", conn: conn, in: bufio.NewReader(conn), turn: make(chan struct{}, 1), quit: make(chan struct{})}
		c := &Client{Fetch: func(ctx context.Context, path string) (io.ReadCloser, error) {
			if path == "/ready" {
				return io.NopCloser(strings.NewReader("LIVE")), nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		var both sync.WaitGroup
		both.Go(func() { _ = s.serve(t.Context(), l, time.Time{}) })
		both.Go(func() { _ = c.serve(t.Context(), agent, agent) })
		synctest.Wait()
		if _, err := s.Ask(t.Context(), "m.a", "/config_dump"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the proxy cannot answer") {
			t.Errorf("%v", err)
		}
		if body, err := s.Ask(t.Context(), "m.a", "/ready"); err != nil || string(body) != "LIVE" {
			t.Errorf("the link is lost: %q, %v", body, err)
		}
		l.close(errClosing)
		_ = agent.Close()
		both.Wait()
	})
}

// TestGivenUp: a caller that stops waiting does not cost others the link. The next question
// gets its turn once the previous answer, which no caller reads, has arrived.
func TestGivenUp(t *testing.T) {
	w := newWorld(t, Options{})
	asked, answer := make(chan struct{}), make(chan struct{})
	run(t, w.client("m.a", func(_ context.Context, path string) (io.ReadCloser, error) {
		if path == "/stats" {
			close(asked)
			<-answer
			return io.NopCloser(strings.NewReader(strings.Repeat("late", maxChunk))), nil
		}
		return io.NopCloser(strings.NewReader("LIVE")), nil
	}))
	if _, err := w.ask(t, "m.a", "/ready"); err != nil {
		t.Fatal(err)
	}
	before := w.linksOf([]string{"m.a"})[0]
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := w.Ask(ctx, "m.a", "/stats"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	waits, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if _, err := w.Ask(waits, "m.a", "/ready"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("two questions are open: %v", err)
	}
	close(answer)
	if body, err := w.Ask(t.Context(), "m.a", "/ready"); err != nil || string(body) != "LIVE" {
		t.Errorf("%q, %v", body, err)
	}
	if after := w.linksOf(nil); len(after) != 1 || after[0] != before {
		t.Error("the link was given up with the question")
	}
}
