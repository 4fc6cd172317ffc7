package trafficroute

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
)

const (
	textEmpty = "cannot be empty"
	// Envoy would refuse these, and the whole route table with them.
	textRegex  = "must be a valid regular expression"
	textHeader = "must be a valid header name"
	textValue  = "must be a valid header value"
)

// maxRules and maxSplit bound lists: every outbound that a route is chosen for has a copy of the
// rules, and each destination is a cluster.
const maxRules, maxSplit = 256, 64

const (
	// maxRing is the largest ring that Envoy accepts.
	maxRing = 8 << 20
	// maxMinRing is how large a ring may be asked for. Envoy fills it on its main thread, whenever
	// an endpoint comes or goes, and all workers share it.
	maxMinRing = 64 << 10
	// maxChoices is how many endpoints a request may be compared for, which a worker does at once.
	maxChoices = 100
)

func validate(spec any) []fault.Violation {
	s := spec.(*Spec)
	v := policy.Violations(append(mesh.CheckSources(s.Sources), mesh.CheckDestinations(s.Destinations)...))
	c := s.Conf
	if c == nil {
		v.Add("conf", textEmpty)
		return v
	}
	checkTo(&v, "conf", c.Split, c.Destination)
	if len(c.HTTP) > maxRules {
		v.Add("conf.http", policy.TextMany, maxRules)
		return v
	}
	for i := range c.HTTP {
		r, path := &c.HTTP[i], fmt.Sprintf("conf.http[%d]", i)
		checkMatch(&v, path+".match", r.Match)
		if r.Modify != nil {
			checkModify(&v, path+".modify", r.Modify, r.Match)
		}
		checkTo(&v, path, r.Split, r.Destination)
	}
	if c.LoadBalancer != nil {
		checkBalancer(&v, c.LoadBalancer)
	}
	return v
}

func checkTo(v *policy.Violations, path string, split []Split, destination mesh.Tags) {
	switch {
	case len(split) == 0 && len(destination) == 0:
		v.Add(path, `requires either "destination" or "split"`)
	case len(split) > 0 && len(destination) > 0:
		v.Add(path, `"split" cannot be defined at the same time as "destination"`)
	}
	if len(split) > maxSplit {
		v.Add(path+".split", policy.TextMany, maxSplit)
		return
	}
	sum := uint64(0)
	for i, s := range split {
		at := fmt.Sprintf("%s.split[%d]", path, i)
		if s.Weight == nil {
			v.Add(at+".weight", "needs to be defined")
		} else {
			sum += uint64(*s.Weight)
		}
		*v = append(*v, mesh.ValidateMatch(at+".destination", s.Destination, mesh.SelectService)...)
	}
	if len(split) > 0 && sum == 0 {
		v.Add(path+".split", "there must be at least one split entry with weight above 0")
	}
	if len(destination) > 0 {
		*v = append(*v, mesh.ValidateMatch(path+".destination", destination, mesh.SelectService)...)
	}
}

func checkMatch(v *policy.Violations, path string, m *Match) {
	if m == nil || m.Method == nil && m.Path == nil && len(m.Headers) == 0 {
		v.Add(path, `must be present and contain at least one of the elements: "method", "path" or "headers"`)
		return
	}
	if m.Method != nil {
		checkText(v, path+".method", *m.Method)
	}
	if m.Path != nil {
		checkText(v, path+".path", *m.Path)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		at := fmt.Sprintf("%s.headers[%q]", path, name)
		if name == "" {
			v.Add(at, textEmpty)
		} else if !httpguts.ValidHeaderFieldName(strings.TrimPrefix(name, ":")) {
			v.Add(at, textHeader)
		}
		v.Sent(at, name)
		checkText(v, at, m.Headers[name])
	}
}

func checkText(v *policy.Violations, path string, t Text) {
	switch {
	case t.Prefix != nil && *t.Prefix == "":
		v.Add(path+".prefix", textEmpty)
	case t.Regex != nil:
		checkRegex(v, path+".regex", *t.Regex)
	case t.Prefix == nil && t.Exact == nil:
		v.Add(path, `cannot be empty. Available options: "exact", "split" or "regex"`)
	}
}

func checkRegex(v *policy.Violations, path, pattern string) {
	if pattern == "" {
		v.Add(path, textEmpty)
	} else if _, err := regexp.Compile(pattern); err != nil {
		v.Add(path, textRegex)
	} else if wrong := mesh.WrongExpression(pattern); wrong != "" {
		v.Add(path, "%s", wrong)
	}
}

func checkModify(v *policy.Violations, path string, m *Modify, match *Match) {
	if p := m.Path; p != nil {
		at := path + ".path"
		switch {
		case p.RewritePrefix == nil && p.Regex == nil:
			v.Add(at, `either "rewritePrefix" or "regex" has to be set`)
		case p.Regex != nil:
			checkSubstitution(v, at+".regex", p.Regex)
		case *p.RewritePrefix == "":
			v.Add(at+".rewritePrefix", textEmpty)
		case match == nil || match.Path == nil || match.Path.Prefix == nil || *match.Path.Prefix == "":
			v.Add(at+".rewritePrefix", "can only be set when .http.match.path.prefix is not empty")
		case !httpguts.ValidHeaderFieldValue(*p.RewritePrefix):
			v.Add(at+".rewritePrefix", textValue)
		default:
			v.Sent(at+".rewritePrefix", *p.RewritePrefix)
		}
	}
	if h := m.Host; h != nil {
		at := path + ".host"
		switch {
		case h.Value == nil && h.FromPath == nil:
			v.Add(at, `either "value" or "fromPath" has to be set`)
		case h.FromPath != nil:
			checkSubstitution(v, at+".fromPath", h.FromPath)
		case *h.Value == "":
			v.Add(at+".value", textEmpty)
		case !httpguts.ValidHeaderFieldValue(*h.Value):
			v.Add(at+".value", textValue)
		default:
			v.Sent(at+".value", *h.Value)
		}
	}
	checkHeaders(v, path+".requestHeaders", m.RequestHeaders)
	checkHeaders(v, path+".responseHeaders", m.ResponseHeaders)
}

func checkSubstitution(v *policy.Violations, path string, s *Substitution) {
	checkRegex(v, path+".pattern", s.Pattern)
	if s.Substitution == "" {
		v.Add(path+".substitution", textEmpty)
	} else if wrong := mesh.WrongSubstitution(s.Pattern, s.Substitution); wrong != "" {
		v.Add(path+".substitution", "%s", wrong)
	}
}

func checkHeaders(v *policy.Violations, path string, h *Headers) {
	if h == nil {
		return
	}
	for _, list := range []struct {
		name string
		n    int
	}{{"add", len(h.Add)}, {"remove", len(h.Remove)}} {
		if list.n > policy.MaxHeaders {
			v.Add(path+"."+list.name, policy.TextMany, policy.MaxHeaders)
			return
		}
	}
	for i, a := range h.Add {
		at := fmt.Sprintf("%s.add[%d]", path, i)
		checkHeaderName(v, at+".name", a.Name)
		if a.Value == "" {
			v.Add(at+".value", textEmpty)
		} else if !httpguts.ValidHeaderFieldValue(a.Value) {
			v.Add(at+".value", textValue)
		} else if len(a.Value) > policy.MaxHeader {
			v.Add(at+".value", policy.TextLong, policy.MaxHeader)
		}
		v.SentLiteral(at+".value", a.Value)
	}
	for i, r := range h.Remove {
		checkHeaderName(v, fmt.Sprintf("%s.remove[%d].name", path, i), r.Name)
	}
}

func checkHeaderName(v *policy.Violations, path, name string) {
	switch {
	case name == "":
		v.Add(path, textEmpty)
	case name[0] == ':' || strings.EqualFold(name, "host"):
		v.Add(path, "host header and HTTP/2 pseudo-headers are not allowed to be modified")
	case !httpguts.ValidHeaderFieldName(name):
		v.Add(path, textHeader)
	case len(name) > policy.MaxHeader:
		v.Add(path, policy.TextLong, policy.MaxHeader)
	default:
		v.Sent(path, name)
	}
}

// given names the load balancers of a route.
func (lb *LoadBalancer) given() (names []string) {
	for _, b := range []struct {
		name  string
		given bool
	}{
		{"roundRobin", lb.RoundRobin != nil}, {"leastRequest", lb.LeastRequest != nil}, {"ringHash", lb.RingHash != nil},
		{"random", lb.Random != nil}, {"maglev", lb.Maglev != nil},
	} {
		if b.given {
			names = append(names, b.name)
		}
	}
	return names
}

func checkBalancer(v *policy.Violations, lb *LoadBalancer) {
	// The members of an object have no order, so nobody could say which of several is meant.
	if names := lb.given(); len(names) > 1 {
		v.Add("conf.loadBalancer", "must have only one of: %s", strings.Join(names, ", "))
	}
	if l := lb.LeastRequest; l != nil && l.ChoiceCount == 1 {
		v.Add("conf.loadBalancer.leastRequest.choiceCount", "value must be greater than or equal to 2")
	} else if l != nil && l.ChoiceCount > maxChoices {
		v.Add("conf.loadBalancer.leastRequest.choiceCount", "value must be less than or equal to %d", maxChoices)
	}
	if m := lb.Maglev; m != nil {
		checkHashes(v, "conf.loadBalancer.maglev.hashPolicies", m.HashPolicies)
	}
	r := lb.RingHash
	if r == nil {
		return
	}
	path := "conf.loadBalancer.ringHash"
	checkHashes(v, path+".hashPolicies", r.HashPolicies)
	if r.HashFunction != HashXX && r.HashFunction != HashMurmur {
		v.Add(path+".hashFunction", "must have a valid hash function")
	}
	if r.MinRingSize > maxMinRing {
		v.Add(path+".minRingSize", "must be at most %d", maxMinRing)
	}
	if r.MaxRingSize > maxRing {
		v.Add(path+".maxRingSize", "must be at most %d", maxRing)
	}
	if r.MaxRingSize > 0 && r.MinRingSize > r.MaxRingSize {
		v.Add(path+".minRingSize", "must not be above maxRingSize")
	}
}
