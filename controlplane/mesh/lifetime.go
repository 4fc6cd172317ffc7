package mesh

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// DefaultLeafLife is the lifetime of certificates of proxies if the mesh defines none.
const DefaultLeafLife = 24 * time.Hour

// LeafLife returns the lifetime of the certificates of a mesh with this authority.
func (a *Authority) LeafLife() (time.Duration, error) {
	if a.DPCert == nil || a.DPCert.Rotation == nil || a.DPCert.Rotation.Expiration == "" {
		return DefaultLeafLife, nil
	}
	return Lifetime(a.DPCert.Rotation.Expiration)
}

// units lists the units of lifetimes. A name that ends with another one comes first.
var units = []struct {
	name string
	span time.Duration
}{
	{"ms", time.Millisecond},
	{"s", time.Second},
	{"m", time.Minute},
	{"h", time.Hour},
	{"d", 24 * time.Hour},
	{"w", 7 * 24 * time.Hour},
	{"y", 365 * 24 * time.Hour},
}

// Lifetime parses a positive number with one of the units y w d h m s ms. Other texts are an
// Invalid fault.
func Lifetime(text string) (time.Duration, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || n == 0 || n > uint64(math.MaxInt64/u.span) { //nolint:gosec // spans are positive
			break
		}
		return time.Duration(n) * u.span, nil
	}
	return 0, fault.New(fault.Invalid, "%q is no lifetime", text)
}
