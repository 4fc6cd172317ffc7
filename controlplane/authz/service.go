package authz

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/meshgate/meshgate/filter/extauthz"
	"github.com/meshgate/meshgate/filter/host"
)

// Service is an authorization service that is opened at most once. Its metrics may be
// registered before.
type Service struct {
	log    *slog.Logger
	server atomic.Pointer[extauthz.Server]
	lis    net.Listener
}

// New returns a service that is not open.
func New(log *slog.Logger) *Service { return &Service{log: log} }

// Open listens on an address, see [extauthz.Listen], and opens the token cache by a file of
// settings. process is the name that an agent gave the service, or empty.
func (s *Service) Open(ctx context.Context, listen, settings, process string) error {
	lis, err := extauthz.Listen(ctx, listen)
	if err != nil {
		return fmt.Errorf("the authorization service cannot listen: %w", err)
	}
	server, err := extauthz.New(s.log, func(h *host.Host) (host.Tokens, error) { return h.OpenNamed(process, nil, settings) })
	if err != nil {
		_ = lis.Close()
		return err
	}
	s.lis = lis
	s.server.Store(server)
	return nil
}

// Ready returns an error unless Envoys reach the service.
func (s *Service) Ready() error {
	if s.server.Load() == nil {
		return errClosed
	}
	return extauthz.InPlace(s.lis)
}

var errClosed = errors.New("it is not open")

// Serve answers until ctx ends, then closes the service.
func (s *Service) Serve(ctx context.Context) error {
	server := s.server.Load()
	s.log.Info("authorization service is ready", "address", s.lis.Addr().String())
	err := server.Serve(ctx, s.lis)
	s.server.Store(nil)
	server.Close()
	return err
}
