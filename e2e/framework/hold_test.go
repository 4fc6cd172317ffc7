package framework

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A server ends though nobody has released what it holds, and so does the client.
func TestServerEndsWithHeldRequests(t *testing.T) {
	held, release := make(chan struct{}, 1), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { Hold(r, held, release) }))
	asked, ended := make(chan error, 1), make(chan struct{})
	go func() {
		resp, err := s.Client().Get(s.URL + "/hold")
		if err == nil {
			_ = resp.Body.Close()
		}
		asked <- err
	}()
	<-held
	go func() { defer close(ended); EndServer(s) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not end")
	}
	if err := <-asked; err == nil {
		t.Error("the request was answered")
	}
}
