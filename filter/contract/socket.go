package contract

import (
	"errors"
	"path/filepath"
	"strings"
)

// UnixPrefix begins an address that is the path of a Unix socket.
const UnixPrefix = "unix://"

// errNotSocket says what an address of an authorization service has to be, and why no port is
// one: neither side of a port knows the other.
var errNotSocket = errors.New("must be " + UnixPrefix + " and an absolute path, such as " + UnixPrefix +
	"/run/meshgate/authz.sock: any user of the machine can reach a port, and take it while the service is away")

// SocketPath returns the path in the address of an authorization service. No other address than
// that of a Unix socket is one. The error completes a sentence that begins with the name of what
// was set.
func SocketPath(address string) (string, error) {
	path, unix := strings.CutPrefix(address, UnixPrefix)
	if !unix || !filepath.IsAbs(path) {
		return "", errNotSocket
	}
	return filepath.Clean(path), nil
}
