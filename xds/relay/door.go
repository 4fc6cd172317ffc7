package relay

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/meshgate/meshgate/xds/bootstrap"
)

// errStranger is the error of a stream that does not show the password.
var errStranger = status.Error(codes.PermissionDenied, "the relay serves the Envoy of its agent only")

// door lets in streams that show the password. The mode of the socket does not keep strangers
// out: Envoy itself may connect to it, and a listener that leads to the cluster of its
// bootstrap would connect whoever reaches the listener. The node id that a stream names is no
// secret, and the relay serves private keys.
type door struct {
	node string
	// opens is the hash of what a stream has to show. Hashes have one length, so that a
	// comparison does not tell that of the password.
	opens [sha256.Size]byte
	log   *slog.Logger
	// told is done with the first refusal, so that strangers do not fill the log.
	told sync.Once
}

func newDoor(c *Config) *door {
	return &door{node: c.Node, opens: sha256.Sum256([]byte(bootstrap.Bearer(c.Password))), log: c.Log}
}

// stream refuses a stream before anything is read from it.
func (d *door) stream(srv any, g grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if d.open(g.Context()) {
		return next(srv, g)
	}
	d.told.Do(func() {
		d.log.Warn("relay_refused_a_stranger", "node", d.node, "hint", "a listener of this proxy may lead there")
	})
	return errStranger
}

// open reports whether a stream shows the password and no other credential.
func (d *door) open(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	shown := md.Get("authorization")
	if len(shown) != 1 {
		return false
	}
	sum := sha256.Sum256([]byte(shown[0]))
	return subtle.ConstantTimeCompare(sum[:], d.opens[:]) == 1
}
