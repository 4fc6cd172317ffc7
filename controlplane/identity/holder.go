package identity

import (
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Holder returns the holder of a token that was found good: the id of the token, and the
// mesh of a dataplane token, or "" for a token of a gateway. It verifies nothing.
func Holder(token string) (id, mesh string) {
	var c DataplaneClaims
	if _, _, err := jwt.NewParser().ParseUnverified(strings.TrimPrefix(token, "Bearer "), &c); err != nil {
		return "", ""
	}
	return c.ID, c.Mesh
}

// GatewayPlane returns the scope of the control plane that a token of a gateway names, or "". It
// verifies nothing.
func GatewayPlane(token string) string {
	var c Claims
	if _, _, err := jwt.NewParser().ParseUnverified(strings.TrimPrefix(token, "Bearer "), &c); err != nil {
		return ""
	}
	return c.ControlPlane
}
