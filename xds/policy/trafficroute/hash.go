package trafficroute

import (
	"fmt"
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
)

// maxHashPolicies is how many may be in a list. Every request is asked for each of them.
const maxHashPolicies = 16

// hashed returns what is hashed; nothing for load balancers that do not pick by a hash.
func (lb *LoadBalancer) hashed() []HashPolicy {
	switch {
	case lb == nil:
		return nil
	case lb.RingHash != nil:
		return lb.RingHash.HashPolicies
	case lb.Maglev != nil:
		return lb.Maglev.HashPolicies
	}
	return nil
}

// hashing reports whether endpoints are picked by a hash, be it one of a random number.
func hashing(s *policy.Selection) bool {
	lb := balancer(s)
	return lb.RingHash != nil || lb.Maglev != nil
}

// hashes translates policies: for HTTP, and whether the source of a connection of TCP counts, of
// which nothing else is known.
func hashes(of []HashPolicy) (out []*routev3.RouteAction_HashPolicy, source bool) {
	for _, h := range of {
		one := &routev3.RouteAction_HashPolicy{Terminal: h.Terminal}
		switch {
		case h.Header != nil:
			one.PolicySpecifier = &routev3.RouteAction_HashPolicy_Header_{Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: h.Header.Name}}
		case h.Cookie != nil:
			cookie := &routev3.RouteAction_HashPolicy_Cookie{Name: h.Cookie.Name, Path: h.Cookie.Path}
			if h.Cookie.TTL != nil {
				cookie.Ttl = durationpb.New(time.Duration(*h.Cookie.TTL))
			}
			one.PolicySpecifier = &routev3.RouteAction_HashPolicy_Cookie_{Cookie: cookie}
		case h.QueryParameter != nil:
			one.PolicySpecifier = &routev3.RouteAction_HashPolicy_QueryParameter_{
				QueryParameter: &routev3.RouteAction_HashPolicy_QueryParameter{Name: h.QueryParameter.Name},
			}
		default:
			source = true
			one.PolicySpecifier = &routev3.RouteAction_HashPolicy_ConnectionProperties_{
				ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true},
			}
		}
		out = append(out, one)
	}
	return out, source
}

// idle names what cannot be hashed of connections of TCP.
func idle(s *policy.Selection, at policy.Setting) (out []string) {
	if at.Protocol == "" || mesh.IsHTTP(at.Protocol) {
		return nil
	}
	lb := balancer(s)
	name := "maglev"
	if lb.RingHash != nil {
		name = "ringHash"
	}
	for i, h := range lb.hashed() {
		if h.SourceIP == nil {
			out = append(out, fmt.Sprintf("conf.loadBalancer.%s.hashPolicies[%d] has no effect: the destination speaks %s, and of its connections only sourceIp can be hashed", name, i, at.Protocol))
		}
	}
	return out
}

func checkHashes(v *policy.Violations, path string, of []HashPolicy) {
	if len(of) > maxHashPolicies {
		v.Add(path, "must have at most %d elements", maxHashPolicies)
		return
	}
	for i, h := range of {
		at, n := fmt.Sprintf("%s[%d]", path, i), 0
		for _, given := range []bool{h.Header != nil, h.Cookie != nil, h.SourceIP != nil, h.QueryParameter != nil} {
			if given {
				n++
			}
		}
		if n != 1 {
			v.Add(at, `must have exactly one of "header", "cookie", "sourceIp" and "queryParameter"`)
			continue
		}
		switch {
		case h.Header != nil:
			checkName(v, at+".header.name", h.Header.Name, httpguts.ValidHeaderFieldName(strings.TrimPrefix(h.Header.Name, ":")), textHeader)
		case h.Cookie != nil:
			checkCookie(v, at+".cookie", h.Cookie)
		case h.QueryParameter != nil:
			checkName(v, at+".queryParameter.name", h.QueryParameter.Name, policy.Visible(h.QueryParameter.Name), policy.TextVisible)
		}
	}
}

func checkName(v *policy.Violations, path, name string, valid bool, text string) {
	switch {
	case name == "":
		v.Add(path, textEmpty)
	case !valid:
		v.Add(path, "%s", text)
	default:
		v.Sent(path, name)
	}
}

// checkCookie: a cookie that is made is a header of the answer (RFC 6265 section 4.1.1), which
// nothing in it may end.
func checkCookie(v *policy.Violations, path string, c *HashCookie) {
	checkName(v, path+".name", c.Name, httpguts.ValidHeaderFieldName(c.Name), "must be a valid name of a cookie")
	if d := c.TTL.Or(0); d < 0 || d > 0 && d < time.Second {
		v.Add(path+".ttl", "must be 0s or at least 1s")
	}
	switch {
	case c.Path == "":
	case c.TTL == nil:
		v.Add(path+".path", "can only be set together with ttl, because no cookie is made without it")
	case c.Path[0] != '/' || strings.ContainsFunc(c.Path, func(r rune) bool { return r <= ' ' || r > '~' || r == ';' }):
		v.Add(path+".path", "must be a path: it begins with / and has no spaces, semicolons or control characters")
	default:
		v.Sent(path+".path", c.Path)
	}
}
