package identity

import (
	"errors"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// genuine is the refusal of a token that was signed with a key of this control plane. It
// proves who was refused. The refusal of a made-up token does not.
type genuine struct {
	error
	// names reports whether the token belongs to a node.
	names func(node string) bool
}

// Unwrap returns the refusal.
func (g genuine) Unwrap() error { return g.error }

// Proves reports whether the refused client holds a token of a node.
func (g genuine) Proves(node string) bool { return g.names(node) }

// Proves reports whether an error refuses a token that is genuine and belongs to a node, but
// no longer counts. Any other refusal may concern anybody who knows the name of the node.
func Proves(err error, node string) bool {
	g, ok := errors.AsType[genuine](err)
	return ok && g.Proves(node)
}

// signed reports whether the signature was good, given the error of the verification.
func signed(err error) bool {
	return !errors.Is(err, jwt.ErrTokenMalformed) && !errors.Is(err, jwt.ErrTokenUnverifiable) && !errors.Is(err, jwt.ErrTokenSignatureInvalid)
}

// proven marks the refusal of a genuine token.
func (c *Claims) proven(err error) error {
	if err == nil {
		return nil
	}
	return genuine{err, func(node string) bool { return c.NodeID() == node }}
}

// proven marks the refusal of a genuine token. A token that names no dataplane may be used
// by several dataplanes and proves none of them. Otherwise its holder could make all of them
// appear as refused.
func (c *DataplaneClaims) proven(err error) error {
	if err == nil {
		return nil
	}
	return genuine{err, func(node string) bool {
		meshName, name, ok := strings.Cut(node, ".")
		return ok && c.Name == name && c.permits(meshName, name, nil) == nil
	}}
}
