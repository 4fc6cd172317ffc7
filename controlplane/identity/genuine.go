package identity

import (
	"errors"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// genuine is the refusal of a token that a key of this control plane has signed. It is
// proof of who was refused, which the refusal of a made-up token is not.
type genuine struct {
	error
	// names reports whether the token is of a node.
	names func(node string) bool
}

// Unwrap returns the refusal.
func (g genuine) Unwrap() error { return g.error }

// Proves reports whether whoever was refused holds a token of a node.
func (g genuine) Proves(node string) bool { return g.names(node) }

// Proves reports whether an error refuses a token that is genuine and of a node, though
// it does not count any more. Any other refusal may be of anybody who knows a name.
func Proves(err error, node string) bool {
	g, ok := errors.AsType[genuine](err)
	return ok && g.Proves(node)
}

// signed reports by the error of a verification whether the signature was good.
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

// proven marks the refusal of a genuine token. One that names no dataplane is held by
// whoever may be any of several, and proves none of them: its holder could have all of
// them shown as refused.
func (c *DataplaneClaims) proven(err error) error {
	if err == nil {
		return nil
	}
	return genuine{err, func(node string) bool {
		meshName, name, ok := strings.Cut(node, ".")
		return ok && c.Name == name && c.permits(meshName, name, nil) == nil
	}}
}
