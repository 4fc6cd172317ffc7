package hostname

import (
	"fmt"
	"slices"
	"strings"
)

// IsLocal reports whether a name is one of the machine itself (RFC 6761 section 6.3, and what
// distributions have in their files of hosts), or that at which clouds give it its credentials.
func IsLocal(host string) bool {
	host = strings.ToLower(strings.TrimRight(host, "."))
	switch host {
	case "localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback", "localhost.localdomain", "localhost4.localdomain4",
		"localhost6.localdomain6", "metadata", "metadata.google.internal":
		return true
	}
	return strings.HasSuffix(host, ".localhost")
}

// Suffix stands for a name and all names below it, or, as [Any], for all names.
type Suffix string

// Any is the suffix of all names.
const Any Suffix = "*"

// ParseSuffix reads a suffix as people write it. No suffix is a name of the machine itself.
func ParseSuffix(text string) (Suffix, error) {
	if text == string(Any) {
		return Any, nil
	}
	name, ok := folded(text)
	switch {
	case !ok || EndsInNumber(name):
		return "", fmt.Errorf("%q is no name, such as example.com, and not *", text)
	case IsLocal(name):
		return "", fmt.Errorf("%q is this machine, or what gives it its credentials", text)
	}
	return Suffix(name), nil
}

// Has reports whether a suffix stands for a name. What all resolvers do not read alike is no name.
func (s Suffix) Has(name string) bool {
	name, ok := folded(name)
	return ok && s != "" && (s == Any || name == string(s) || strings.HasSuffix(name, "."+string(s)))
}

// folded returns a name in lower case, without a dot at its end. It has letters, digits, hyphens and
// underscores only: resolvers end a name at a zero byte, whatever comes after it.
func folded(name string) (string, bool) {
	name = strings.TrimSuffix(name, ".")
	odd := strings.ContainsFunc(name, func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	})
	if odd || len(name) > 253 || slices.Contains(strings.Split(name, "."), "") {
		return "", false
	}
	return strings.ToLower(name), true
}
