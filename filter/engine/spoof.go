package engine

import "github.com/meshgate/meshgate/filter/contract"

// Spoofs reports whether a request header, by its lower-case name, could pass
// for one that only a gateway may set: an identity header or one of the OAuth
// hand-over, spelt with dashes or underscores in any mixture. Many application
// servers cannot tell the two apart (RFC 3875 section 4.1.18 maps both to "_").
// Adapters remove such headers unless the listener already has: behind such a
// listener contract.HeaderOAuthProto is the listener's own and must stay.
func Spoofs(name []byte) bool {
	// Every such name starts with x and a separator; most headers do not.
	if len(name) < 3 || name[0] != 'x' {
		return false
	}
	for i := range contract.IdentityHeaders {
		if twins(name, contract.IdentityHeaders[i]) {
			return true
		}
	}
	for i := range contract.OAuthHeaders {
		if twins(name, contract.OAuthHeaders[i]) {
			return true
		}
	}
	return false
}

func twins(name []byte, header string) bool {
	if len(name) != len(header) {
		return false
	}
	for i, c := range name {
		if c == '_' {
			c = '-'
		}
		if c != header[i] {
			return false
		}
	}
	return true
}
