package extauthz

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// maxMessage bounds a request of Envoy in bytes: the largest body that is searched, with the
	// byte that tells a longer one from it, a chain, and headers. An Envoy that somebody else
	// configures may send so much.
	maxMessage = contract.MaxBody + 1 + contract.MaxChain + 512<<10
	// maxHeaders bounds the headers of a call in bytes, as HTTP/2 counts them. What a client
	// sends is in the question; Envoy adds a few lines of its own. gRPC's own limit is 16 MiB.
	maxHeaders = 16 << 10
	// maxStreams bounds the concurrent questions of one connection of Envoy.
	maxStreams = 4096
	// connectionWindow is what Envoy may send on a connection before it is read.
	connectionWindow = 1 << 20
	// pingTime is how often the peer may send a PING. An Envoy sends one every 5 s on each
	// connection, even when nobody asks; gRPC's own limit is one in two hours, beyond which it
	// would close the connection, with all questions that come just then.
	pingTime = time.Second
)

// service is the authorization service. Its one call reads a question only when there is room
// for it, which what is generated cannot do.
var service = grpc.ServiceDesc{
	ServiceName: authv3.Authorization_ServiceDesc.ServiceName,
	HandlerType: authv3.Authorization_ServiceDesc.HandlerType,
	Methods: []grpc.MethodDesc{{
		MethodName: "Check",
		Handler: func(s any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return s.(*Server).ask(ctx, read)
		},
	}},
}

// Serve answers Envoys until ctx ends. It answers the calls in progress before it returns.
func (s *Server) Serve(ctx context.Context, lis net.Listener) error {
	g := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaders),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingTime, PermitWithoutStream: true}),
		grpc.InitialWindowSize(unread), grpc.InitialConnWindowSize(connectionWindow)) // fixed, or they would grow to 16 MiB
	g.RegisterService(&service, s)
	stop := context.AfterFunc(ctx, g.GracefulStop)
	defer stop()
	// ErrServerStopped says that ctx ended before the server had begun.
	if err := g.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve the authorization service: %w", err)
	}
	return nil
}
