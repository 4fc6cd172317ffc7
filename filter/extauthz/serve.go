package extauthz

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// maxMessage bounds a request of Envoy in bytes: a body, a chain, and headers.
	maxMessage = contract.AuthzMaxBody + contract.MaxChain + 512<<10
	// maxStreams bounds the concurrent questions of one connection of Envoy.
	maxStreams = 4096
)

var errNotLoopback = errors.New("it would show credentials to the network: use a loopback address such as 127.0.0.1:9191, or " + contract.UnixPrefix + " and a path")

// Listen opens an address for [Server.Serve]. The address is either "unix://" and the path
// of a Unix socket, which only the user of this process may use, or a loopback address with
// a port. Other addresses are refused, because requests carry credentials and are not
// encrypted.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	path, unix := strings.CutPrefix(address, contract.UnixPrefix)
	if !unix {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an IP address with a port nor a path behind %s", address, contract.UnixPrefix)
		}
		if !at.Addr().IsLoopback() {
			return nil, fmt.Errorf("%s: %w", address, errNotLoopback)
		}
		return lc.Listen(ctx, "tcp", address)
	}
	if c, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("another server listens on %s", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	lis, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = lis.Close()
		return nil, fmt.Errorf("set the mode of the socket: %w", err)
	}
	return lis, nil
}

// Serve answers Envoys until ctx ends. It answers the calls in progress before it returns.
func (s *Server) Serve(ctx context.Context, lis net.Listener) error {
	g := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams))
	authv3.RegisterAuthorizationServer(g, s)
	stop := context.AfterFunc(ctx, g.GracefulStop)
	defer stop()
	// ErrServerStopped says that ctx ended before the server had begun.
	if err := g.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve the authorization service: %w", err)
	}
	return nil
}
