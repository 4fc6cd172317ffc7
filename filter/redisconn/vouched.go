package redisconn

import (
	"context"
	"errors"
	"slices"
)

// ErrNotVouched is why a server that another one stands for is not read.
var ErrNotVouched = errors.New("redis is another server than the control plane vouches for")

// Vouched is an [Options.OnConnect] which refuses servers that the control plane does
// not write to, and one that has become a replica since: what it holds may be old.
func Vouched(servers []string) func(context.Context, func() (Server, error)) error {
	return func(_ context.Context, info func() (Server, error)) error {
		server, err := info()
		if err != nil {
			return err
		}
		return vouchedFor(servers, server)
	}
}

func vouchedFor(servers []string, s Server) error {
	if s.Identity() == "" || !slices.Contains(servers, s.Identity()) || (s.Role != "" && s.Role != rolePrimary) {
		return ErrNotVouched
	}
	return nil
}
