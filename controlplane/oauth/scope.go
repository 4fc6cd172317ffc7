package oauth

import (
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// scope checks the scope parameter against the scopes that the plugin offers and those that
// the application may have. The result holds the words separated by single blanks, in the
// order and with the repetitions of the request.
func (t *Request) scope() (string, *Error) {
	v, present := t.params.values["scope"]
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
	words := gateway.Words(s)
	for _, w := range words {
		if !slices.Contains(t.Config.Scopes, w) || !t.allowed(w) {
			return "", errScope(w)
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

// allowed reports whether the application, if it is known, may have a scope.
func (t *Request) allowed(word string) bool {
	return t.Application == nil || t.Spec().Scopes == nil || slices.Contains(t.Spec().Scopes, word)
}

// permitted refuses a scope that was granted earlier and that the application may no longer
// have.
func (t *Request) permitted(scope string) *Error {
	for _, word := range gateway.Words(scope) {
		if !t.allowed(word) {
			return errScope(word)
		}
	}
	return nil
}

func errScope(word string) *Error {
	return bad("invalid_scope", `"`+printable(word)+`" is an invalid scope`)
}

// printable removes what must not appear in an error text from a text of a client.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\\' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), 64)]
}
