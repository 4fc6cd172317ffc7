package extauthz

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	"github.com/meshgate/meshgate/filter/host/hosttest"
)

// TestPingsDoNotEndConnections: Envoy sends PINGs while nobody asks. A server of gRPC closes such
// a connection unless it is told to bear them.
func TestPingsDoNotEndConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
		lis := bufconn.Listen(1 << 20)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, lis) }()
		conn, err := grpc.NewClient("passthrough:///authz", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 5 * time.Second, Timeout: 2 * time.Second, PermitWithoutStream: true})) // gRPC makes it 10 s
		if err != nil {
			t.Fatal(err)
		}
		q := request(plain, ":path", "/", "authorization", "Bearer good")
		client := authv3.NewAuthorizationClient(conn)
		if r, err := client.Check(t.Context(), q); err != nil || r.GetOkResponse() == nil {
			t.Errorf("%v, %v", r, err)
		}
		quiet, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if conn.WaitForStateChange(quiet, connectivity.Ready) {
			t.Errorf("the connection is %v after PINGs", conn.GetState())
		}
		if r, err := client.Check(t.Context(), q); err != nil || r.GetOkResponse() == nil {
			t.Errorf("after PINGs: %v, %v", r, err)
		}
		_ = conn.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
