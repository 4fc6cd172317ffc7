package transparent

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os/user"
	"strconv"
	"strings"
)

// words are the flags that are read into [Options].
type words struct {
	user                                     string
	notOutbound, notInbound, notUsers, notTo []string
}

// read puts the words into options. Its error names all flags that cannot be read.
func (w *words) read(o *Options) error {
	var errs []error
	take := func(flag string, into *[]Range, list []string, one func(string) (uint32, error), least uint32) {
		*into = nil
		for _, text := range list {
			r, err := rangeOf(text, one, least)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", flag, err))
				continue
			}
			*into = append(*into, r)
		}
	}
	take("--exclude-outbound-ports", &o.NotOutbound, w.notOutbound, portOf, 1)
	take("--exclude-inbound-ports", &o.NotInbound, w.notInbound, portOf, 1)
	take("--exclude-users", &o.NotUsers, w.notUsers, userOf, 0)
	o.NotTo = nil
	for _, text := range w.notTo {
		p, err := prefixOf(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--exclude-networks: %w", err))
			continue
		}
		o.NotTo = append(o.NotTo, p)
	}
	uid, err := userOf(w.user)
	if err != nil {
		errs = append(errs, fmt.Errorf("--proxy-user: %w", err))
	}
	o.Proxy = uid
	return errors.Join(errs...)
}

// rangeOf reads a number or two with a hyphen between. A user's name may have hyphens.
func rangeOf(text string, one func(string) (uint32, error), least uint32) (r Range, err error) {
	from, to, is := strings.Cut(text, "-")
	if _, number := strconv.ParseUint(from, 10, 32); !is || number != nil {
		from, to = text, text
	}
	if r.From, err = one(from); err != nil {
		return r, err
	}
	if r.To, err = one(to); err != nil {
		return r, err
	}
	if r.From < least || r.To < r.From {
		return r, fmt.Errorf("%q is no range", text)
	}
	return r, nil
}

func portOf(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q is no port", text)
	}
	return uint32(n), nil
}

// userOf returns the number of a user of this machine.
func userOf(text string) (uint32, error) {
	if n, err := strconv.ParseUint(text, 10, 32); err == nil && n < math.MaxUint32 {
		return uint32(n), nil
	}
	u, err := user.Lookup(text)
	if err != nil {
		return 0, fmt.Errorf("this machine has no user %q: make one (useradd --system %s), or name the one that the proxy runs as", text, text)
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	return uint32(n), err
}

func prefixOf(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return p, fmt.Errorf("%q is no network such as 10.0.0.0/8", text)
	}
	return p.Masked(), nil
}
