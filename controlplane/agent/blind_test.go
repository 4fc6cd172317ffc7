package agent

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
)

// TestNotReadyWithoutTheServiceOfOthers: a gateway whose authorization service is away, or only
// listens, refuses every request that has a chain, so it is not ready, whether it has reached the
// control plane or not.
func TestNotReadyWithoutTheServiceOfOthers(t *testing.T) {
	a := &Agent{Options: Options{AuthzAddress: filepath.Join(t.TempDir(), "s")}}
	a.reached.Store(true)
	expect := func(when, want string) {
		t.Helper()
		if got := a.blind(t.Context()); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	listen := func() net.Listener {
		t.Helper()
		lis, err := net.Listen("unix", a.AuthzAddress)
		if err != nil {
			t.Fatal(err)
		}
		return lis
	}
	expect("not started", "the authorization service of filter.authz does not answer")
	lis := listen()
	expect("it hangs", "does not answer")
	_ = lis.Close()
	lis = listen()
	server, ended := grpc.NewServer(), make(chan error, 1)
	go func() { ended <- server.Serve(lis) }()
	a.asks = patience
	expect("it answers", "")
	server.Stop()
	if err := <-ended; err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	expect("it has ended", "does not answer")
}
