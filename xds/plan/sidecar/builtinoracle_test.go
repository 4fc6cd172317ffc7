package sidecar_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// request is one at a gateway.
type request struct {
	host, path, query, method string
	headers                   map[string]string
}

// door is a gateway with its routes, as documents say it. Route i has the name r<i>.
type door struct {
	listeners []mesh.GatewayListener
	routes    []*mesh.MeshGatewayRoute
}

// part is a tag of listeners, by which some routes select some of them.
const part = "part"

// drawDoor draws a gateway on a port. Its world is small, so that requests meet many of its matches.
func drawDoor(rt *rapid.T, port uint32) *door {
	parts := rapid.SampledFrom([]string{"", "", "", "", "one", "two"})
	tagged := func(tags mesh.Tags, label string) mesh.Tags {
		if p := parts.Draw(rt, label); p != "" {
			tags[part] = p
		}
		return tags
	}
	d := &door{}
	hosts := []string{"*", "*.example", "a.example", "*.a.example"}
	for _, host := range rapid.SliceOfNDistinct(rapid.SampledFrom(hosts), 1, 4, rapid.ID[string]).Draw(rt, "listeners") {
		d.listeners = append(d.listeners, mesh.GatewayListener{Port: port, Protocol: mesh.ListenerHTTP, Hostname: host, Tags: tagged(mesh.Tags{}, "listener")})
	}
	names := rapid.SampledFrom([][]string{nil, nil, {"a.example"}, {"*.example"}, {"*.a.example", "b.example"}, {"*", "elsewhere.test"}, {"x.a.example", "a.example"}})
	for i := range rapid.IntRange(2, 6).Draw(rt, "routes") {
		h := &mesh.HTTPGatewayRoute{Hostnames: names.Draw(rt, "hostnames")}
		for j := range rapid.IntRange(1, 3).Draw(rt, "rules") {
			rule := mesh.HTTPGatewayRule{Filters: []mesh.GatewayFilter{{Redirect: &mesh.GatewayRedirect{Hostname: ruleHost(i, j), StatusCode: 302}}}}
			for range rapid.IntRange(1, 3).Draw(rt, "matches") {
				rule.Matches = append(rule.Matches, drawMatch(rt))
			}
			h.Rules = append(h.Rules, rule)
		}
		d.routes = append(d.routes, &mesh.MeshGatewayRoute{
			Selectors: []mesh.Selector{{Match: tagged(mesh.Tags{mesh.TagService: "edge"}, "selector")}}, Conf: &mesh.MeshGatewayRouteConf{HTTP: h},
		})
	}
	return d
}

// ruleHost is where a rule of a route redirects to.
func ruleHost(route, rule int) string { return fmt.Sprintf("r%d-%d.test", route, rule) }

func drawMatch(rt *rapid.T) (m mesh.GatewayMatch) {
	paths := []string{"/", "/a", "/a/", "/a/b", "/ab", "/a/b/c"}
	texts := []string{"1", "2", "12"}
	expressions := []string{"1", "1.*", "2|1", ".*"}
	switch kind := rapid.SampledFrom([]string{"", "", mesh.MatchExact, mesh.MatchPrefix, mesh.MatchRegex}).Draw(rt, "path"); kind {
	case "":
	case mesh.MatchRegex:
		m.Path = &mesh.GatewayPathMatch{Match: kind, Value: rapid.SampledFrom([]string{"/a[ab/]*", "/a/(b|c)", "/.*c", "/a|/ab", "/[^/]*"}).Draw(rt, "expression")}
	default:
		m.Path = &mesh.GatewayPathMatch{Match: kind, Value: rapid.SampledFrom(paths).Draw(rt, "value")}
	}
	m.Method = rapid.SampledFrom([]string{"", "", "", "GET", "POST", "DELETE"}).Draw(rt, "method")
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(rt, "headers") {
		h := mesh.GatewayHeaderMatch{Name: rapid.SampledFrom([]string{"x", "Y"}).Draw(rt, "header")}
		h.Match = rapid.SampledFrom([]string{mesh.MatchExact, mesh.MatchRegex, mesh.MatchAbsent, mesh.MatchPresent}).Draw(rt, "kind")
		switch h.Match {
		case mesh.MatchExact:
			h.Value = rapid.SampledFrom(texts).Draw(rt, "value")
		case mesh.MatchRegex:
			h.Value = rapid.SampledFrom(expressions).Draw(rt, "expression")
		}
		m.Headers = append(m.Headers, h)
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(rt, "parameters") {
		q := mesh.GatewayQueryMatch{Name: rapid.SampledFrom([]string{"p", "q"}).Draw(rt, "parameter"), Match: mesh.MatchExact, Value: rapid.SampledFrom(texts).Draw(rt, "value")}
		if rapid.Bool().Draw(rt, "regex") {
			q.Match, q.Value = mesh.MatchRegex, rapid.SampledFrom(expressions).Draw(rt, "expression")
		}
		m.QueryParameters = append(m.QueryParameters, q)
	}
	if m.Path == nil && m.Method == "" && m.Headers == nil && m.QueryParameters == nil {
		m.Method = "GET" // a match has to say something
	}
	return m
}

func drawRequest(rt *rapid.T) request {
	r := request{
		host:    rapid.SampledFrom([]string{"a.example", "b.example", "x.a.example", "elsewhere.test", "other.test", "A.Example", "b.example:81"}).Draw(rt, "host"),
		path:    rapid.SampledFrom([]string{"/", "/a", "/a/", "/a/b", "/a/c", "/ab", "/a/b/c", "/c"}).Draw(rt, "path"),
		query:   rapid.SampledFrom([]string{"", "", "q=1", "q=2&p=1", "q=1&q=2", "q=2&q=1", "p=12&q=12", "q=", "p"}).Draw(rt, "query"),
		method:  rapid.SampledFrom([]string{"GET", "GET", "POST", "DELETE"}).Draw(rt, "method"),
		headers: map[string]string{},
	}
	for _, name := range []string{"x", "y"} {
		if rapid.Bool().Draw(rt, "there") {
			r.headers[name] = rapid.SampledFrom([]string{"", "1", "2", "12"}).Draw(rt, "value")
		}
	}
	return r
}

// stands reports whether a host name of a document stands for a host.
func stands(name, host string) bool {
	below, wild := strings.CutPrefix(name, "*")
	return name == host || wild && strings.HasSuffix(host, below)
}

// choice is a match that takes a request, with its place.
type choice struct {
	match       *mesh.GatewayMatch
	route, rule int
}

// chooses is a naive reading of what the documents say about a request: nil if no route takes it.
func (d *door) chooses(r request) (best *choice) {
	name, _, _ := strings.Cut(strings.ToLower(r.host), ":")
	l := d.listener(name)
	if l == nil {
		return nil
	}
	for i, route := range d.routes {
		h := route.Conf.HTTP
		want := route.Selectors[0].Match[part]
		about := h.Hostnames == nil || slices.ContainsFunc(h.Hostnames, func(n string) bool { return stands(n, name) })
		if !about || want != "" && l.Tags[part] != want {
			continue
		}
		for j := range h.Rules {
			for k := range h.Rules[j].Matches {
				m := &h.Rules[j].Matches[k]
				if takes(m, r) && (best == nil || slices.Compare(rank(m), rank(best.match)) < 0) {
					best = &choice{m, i, j}
				}
			}
		}
	}
	return best
}

// listener is the one with the longest name that stands for a host.
func (d *door) listener(host string) (best *mesh.GatewayListener) {
	for i := range d.listeners {
		l := &d.listeners[i]
		if stands(l.Hostname, host) && (best == nil || l.Hostname == host || best.Hostname != host && len(l.Hostname) > len(best.Hostname)) {
			best = l
		}
	}
	return best
}

// rank orders matches as the documents say: the lowest comes first.
func rank(m *mesh.GatewayMatch) []int {
	p := pathOf(m)
	method := 1
	if m.Method != "" {
		method = 0
	}
	return []int{
		slices.Index([]string{mesh.MatchExact, mesh.MatchPrefix, mesh.MatchRegex}, p.Match), -len(p.Value), method, -len(m.Headers), -len(m.QueryParameters),
	}
}

// pathOf is what a match says about paths. A slash at the end of a prefix says nothing.
func pathOf(m *mesh.GatewayMatch) mesh.GatewayPathMatch {
	p := mesh.GatewayPathMatch{Match: mesh.MatchPrefix, Value: "/"}
	if m.Path != nil {
		p = *m.Path
	}
	if p.Match == mesh.MatchPrefix {
		p.Value = cmp.Or(strings.TrimSuffix(p.Value, "/"), "/")
	}
	return p
}

// takes is a naive reading of what a match demands.
func takes(m *mesh.GatewayMatch, r request) bool {
	p := pathOf(m)
	switch p.Match {
	case mesh.MatchExact, mesh.MatchRegex:
		if !says(p.Match, p.Value, r.path) {
			return false
		}
	case mesh.MatchPrefix:
		if p.Value != "/" && r.path != p.Value && !strings.HasPrefix(r.path, p.Value+"/") {
			return false
		}
	}
	for _, h := range m.Headers {
		value, there := r.headers[strings.ToLower(h.Name)]
		switch h.Match {
		case mesh.MatchAbsent, mesh.MatchPresent:
			if there != (h.Match == mesh.MatchPresent) {
				return false
			}
		default:
			if !there || !says(h.Match, h.Value, value) {
				return false
			}
		}
	}
	for _, q := range m.QueryParameters {
		value, there := parameter(r.query, q.Name)
		if !there || !says(q.Match, q.Value, value) {
			return false
		}
	}
	return m.Method == "" || m.Method == r.method
}

// says compares a text as a whole.
func says(kind, want, text string) bool {
	if kind == mesh.MatchRegex {
		return regexp.MustCompile("^(?:" + want + ")$").MatchString(text)
	}
	return text == want
}

// parameter is the first value of a name.
func parameter(query, name string) (string, bool) {
	for pair := range strings.SplitSeq(query, "&") {
		if key, value, _ := strings.Cut(pair, "="); key == name {
			return value, true
		}
	}
	return "", false
}
