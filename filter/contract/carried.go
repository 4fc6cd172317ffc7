package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// What a table carries begins with one of these. No encoded chain begins like that.
const (
	// MarkedChains begins the chains of a table in which every route says what it has: the name
	// of a chain, or [NoChain]. The filter refuses the requests of a route that says nothing,
	// because it cannot tell a route without a chain from one of which it could not read
	// anything.
	MarkedChains = "marked chains\n"
	// PlainChains begins those of a table that somebody has written by hand. In it a route that
	// says nothing has no chain.
	PlainChains = "chains\n"
)

// NoChain is what a route without a chain says to the filter, in the place of [Carried].
const NoChain = "none"

// ChainContent names an encoded chain by its content.
func ChainContent(encoded []byte) [16]byte {
	sum := sha256.Sum256(encoded)
	return [16]byte(sum[:16])
}

// MarshalChains is what a table carries to the filter, on behalf of all its routes: every
// chain that they name, once. An encoded chain is one line. Every route of the table must say
// what it has, see [MarkedChains].
func MarshalChains(chains [][]byte) ([]byte, error) {
	out := []byte(MarkedChains)
	for _, c := range chains {
		if len(c) == 0 || bytes.IndexByte(c, '\n') >= 0 {
			return nil, fmt.Errorf("chain %q is not one line", c)
		}
		out = append(append(out, c...), '\n')
	}
	return out, nil
}

// ParseChains splits what [MarshalChains] has made. ok is false for anything else.
func ParseChains(carried []byte) (chains [][]byte, ok bool) {
	rest, ok := bytes.CutPrefix(carried, []byte(MarkedChains))
	if !ok {
		return nil, false
	}
	for line := range bytes.SplitSeq(rest, []byte{'\n'}) {
		if len(line) > 0 {
			chains = append(chains, line)
		}
	}
	return chains, true
}

// Carried is what a route of such a table says to the filter, in its metadata under
// [MetaFilter]. A route without a chain says [NoChain]. The filter refuses the requests of one
// that names a chain which the table does not carry.
type Carried struct {
	// Content is that of the route's chain.
	Content [16]byte
	// Strip is what happens to the path of a request that passes; nil leaves it as it is.
	Strip *Strip
}

// Strip replaces a prefix of the path. What remains may begin within a segment: then it
// becomes a segment, without dots at its beginning that would make it a dot segment. The
// upstream is told the prefix in X-Forwarded-Prefix, unless there is one already.
type Strip struct {
	// Prefix is how many bytes are replaced. They do not end with a slash.
	Prefix int
	// Base, which does not end with a slash and may be empty, comes in their place.
	Base string
}

// String returns the form in which it is carried.
func (c Carried) String() string {
	text := hex.EncodeToString(c.Content[:])
	if c.Strip == nil {
		return text
	}
	return text + " " + strconv.Itoa(c.Strip.Prefix) + c.Strip.Base
}

// ParseCarried reads what [Carried.String] writes.
func ParseCarried(text string) (Carried, error) {
	var c Carried
	name, cut, strips := strings.Cut(text, " ")
	if n, err := hex.Decode(c.Content[:], []byte(name[:min(len(name), 2*len(c.Content))])); err != nil || 2*n != len(name) || n != len(c.Content) {
		return c, fmt.Errorf("%q does not name a chain", name)
	}
	if !strips {
		return c, nil
	}
	digits, base, found := strings.Cut(cut, "/")
	prefix, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return c, fmt.Errorf("prefix to strip: %w", err)
	}
	c.Strip = &Strip{Prefix: int(prefix)}
	if found {
		c.Strip.Base = "/" + base
	}
	return c, nil
}
