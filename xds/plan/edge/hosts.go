package edge

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// anyHost is the domain for hosts that no route names.
const anyHost = "*"

// mostCopies is the maximum number of copies of ways without hosts in all virtual hosts
// together. Beyond it, virtual hosts are merged, and the ways of the merged hosts then check
// the host themselves.
const mostCopies = 1 << 14

// host is a virtual host: its domains, and the ways that can match there, best first.
type host struct {
	domains []string
	ways    []placed
}

// placed is a way in a virtual host. guard is what it demands of the host beyond what the
// domains imply.
type placed struct {
	*way
	guard predicate
}

// relation says whether the hosts of a domain match a pattern. Envoy looks for an exact domain
// first, then for the longest wildcard on the left, then for the longest one on the right.
type relation int

const (
	matchesNone relation = iota
	matchesSome
	matchesAll
)

func relate(p gateway.HostPattern, domain string) relation {
	d, _ := gateway.ParseHost(domain)
	longer := func(ok bool) relation {
		if ok {
			return matchesAll
		}
		return matchesNone
	}
	suffix, prefix := p.Suffix(), p.Prefix()
	switch {
	case domain == anyHost:
		return matchesNone
	case p.Name == d.Name:
		return matchesAll
	case suffix != "" && d.Prefix() == "":
		// A host that a longer wildcard matches belongs to another domain.
		return longer(strings.HasSuffix(d.Name, suffix) && d.Name != suffix)
	case prefix != "" && d.Suffix() != "":
		return matchesSome
	case prefix != "":
		return longer(strings.HasPrefix(d.Name, prefix) && d.Name != prefix)
	}
	return matchesNone
}

// arrange distributes ways, which are ordered by priority, over virtual hosts. anyHost is
// always among them. copies replaces mostCopies.
func arrange(ways []*way, copies int) []host {
	byName := map[string][]int{anyHost: nil}
	var hostless, loose []int // loose: with a wildcard on the right
	for i, w := range ways {
		if len(w.hosts) == 0 {
			hostless = append(hostless, i)
		}
		for _, p := range w.hosts {
			byName[p.Name] = append(byName[p.Name], i)
			if p.Prefix() != "" {
				loose = append(loose, i)
			}
		}
	}
	classes := map[string][]string{} // domains with equal ways, by signature
	for _, domain := range slices.Sorted(maps.Keys(byName)) {
		own := related(byName, loose, domain)
		key := signature(ways, own, domain)
		classes[key] = append(classes[key], domain)
	}
	var out []host
	for _, domains := range merge(classes, len(hostless), copies) {
		var own []int
		for _, d := range domains {
			own = append(own, related(byName, loose, d)...)
		}
		own = append(own, hostless...)
		slices.Sort(own)
		h := host{domains: domains}
		for _, i := range slices.Compact(own) {
			h.ways = append(h.ways, placed{ways[i], guard(ways[i], domains)})
		}
		out = append(out, h)
	}
	return out
}

// related lists the ways with a pattern that some host of a domain matches, in order.
func related(byName map[string][]int, loose []int, domain string) []int {
	if domain == anyHost {
		return nil
	}
	out := slices.Clone(byName[domain])
	d, _ := gateway.ParseHost(domain)
	for i := range len(d.Name) {
		if d.Name[i] == '.' {
			out = append(out, byName["*"+d.Name[i:]]...)
			out = append(out, byName[d.Name[:i+1]+"*"]...)
		}
	}
	if d.Suffix() != "" {
		out = append(out, loose...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// signature is equal for domains on which the same ways match under the same conditions.
func signature(ways []*way, own []int, domain string) string {
	var b strings.Builder
	for _, i := range own {
		fmt.Fprintf(&b, "%d", i)
		for _, t := range terms(ways[i], []string{domain}) {
			fmt.Fprintf(&b, " %s %d", t.name, t.port)
		}
		b.WriteByte('\n')
	}
	if domain == anyHost {
		return anyHost // it stays alone
	}
	return b.String()
}

// merge groups classes of domains, so that the routes without hosts are not copied too often.
// hostless is their number.
func merge(classes map[string][]string, hostless, copies int) [][]string {
	groups := slices.SortedFunc(maps.Values(classes), func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	size := 1 + len(groups)*hostless/copies
	if size == 1 {
		return groups
	}
	out := [][]string{groups[0]} // anyHost comes first
	for g := range slices.Chunk(groups[1:], size) {
		out = append(out, slices.Concat(g...))
	}
	return out
}

// term is an alternative of a guard. It demands a host that matches name, unless name is
// empty, and the port, unless it is 0.
type term struct {
	name string
	port uint16
}

// terms returns the alternatives that a way demands in a virtual host. There are none if the
// domains imply that its hosts match.
func terms(w *way, domains []string) []term {
	var out []term
	open := len(domains) // number of domains that are not implied
	implied := make([]bool, len(domains))
	for _, p := range w.hosts {
		all, some := true, false
		for i, d := range domains {
			r := relate(p, d)
			all, some = all && r == matchesAll, some || r != matchesNone
			if r == matchesAll && p.Port == 0 && !implied[i] {
				implied[i] = true
				open--
			}
		}
		t := term{p.Name, p.Port}
		if all {
			t.name = ""
		}
		if some {
			out = append(out, t)
		}
	}
	if open == 0 {
		return nil
	}
	return out
}

func guard(w *way, domains []string) predicate {
	var some []predicate
	for _, t := range terms(w, domains) {
		var both []predicate
		if t.name != "" {
			both = append(both, named(t.name))
		}
		if t.port != 0 {
			both = append(both, onPort(t.port))
		}
		some = append(some, allOf(both))
	}
	if len(some) == 0 {
		return nil
	}
	return anyOf(some)
}

// named compares the host of a request, without its port, with a pattern.
func named(name string) predicate {
	p := gateway.HostPattern{Name: name}
	switch {
	case p.Suffix() != "":
		return fits(hostInput, `(?i)[^:]+`+regexp.QuoteMeta(p.Suffix())+`(?::\C*)?`)
	case p.Prefix() != "":
		return fits(hostInput, `(?i)`+regexp.QuoteMeta(p.Prefix())+`[^:]\C*`)
	}
	return anyOf([]predicate{equals(hostInput, name, true), begins(hostInput, name+":", true)})
}

// onPort compares the port that the request names. If it names none, it compares the port of
// the listener.
func onPort(port uint16) predicate {
	text := fmt.Sprint(port)
	return anyOf([]predicate{
		ends(hostInput, ":"+text),
		allOf([]predicate{equals(portInput, text, false), fits(hostInput, `(?:[^:]*|\[\C*\]):?`)}),
	})
}
