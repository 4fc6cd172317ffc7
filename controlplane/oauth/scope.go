package oauth

import (
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// scope evaluates the scope parameter against the scopes that the plugin
// offers. The result holds the words separated by single blanks, in the order
// and with the repetitions of the request.
func (t *Request) scope() (string, error) {
	v, present := t.params["scope"]
	switch {
	case !present && t.Config.MandatoryScope:
		return "", errScopeMissing
	case !present || t.Config.Scopes == nil:
		return "", nil
	}
	s, ok := v.(string)
	if !ok {
		return "", errScopeType
	}
	words := strings.Fields(s)
	for _, w := range words {
		if !slices.Contains(t.Config.Scopes, w) {
			return "", bad("invalid_scope", `"`+printable(w)+`" is an invalid scope`)
		}
	}
	if len(words) == 0 && t.Config.MandatoryScope {
		return "", errScopeMissing
	}
	scope := strings.Join(words, " ")
	if len(scope) > gateway.MaxScope {
		return "", errScopeLong
	}
	return scope, nil
}

// printable cuts what a client sent down to what may stand in an error text.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\\' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), 64)]
}
