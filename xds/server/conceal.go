package server

import (
	"strings"

	"github.com/meshgate/meshgate/xds/concealed"
	"github.com/meshgate/meshgate/xds/resource"
)

// concealedError replaces a reason that quotes concealed values.
const concealedError = "the proxy refused it and quotes what nobody may read; its log says why"

// conceal returns the part of a proxy's reason that may be kept. Envoy prints the resource
// that it refuses, including values that are concealed wherever configuration is shown. The
// names of the refused resources that the reason mentions are kept, so that operators can tell
// which resource is meant.
func conceal(text string, refused []*resource.Resource) string {
	var names []string
	quotes := false
	for _, r := range refused {
		values, err := concealed.Values(string(r.Type), r.Body)
		quotes = quotes || err != nil || concealed.Quotes(text, values)
		if Mentions(text, r.Name) {
			names = append(names, r.Name)
		}
	}
	switch {
	case !quotes:
		return text
	case len(names) == 0:
		return concealedError
	}
	return strings.Join(names, ", ") + ": " + concealedError
}

// Mentions reports whether a text contains a name as a whole word.
func Mentions(text, name string) bool {
	for rest := text; ; {
		i := strings.Index(rest, name)
		if i < 0 || name == "" {
			return false
		}
		end := i + len(name)
		if (i == 0 || !inName(rest[i-1])) && (end == len(rest) || !inName(rest[end])) {
			return true
		}
		rest = rest[i+1:]
	}
}

func inName(c byte) bool {
	return c == '-' || c == '_' || c == '.' || c == '/' ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
