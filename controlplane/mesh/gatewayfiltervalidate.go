package mesh

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/meshgate/meshgate/xds/reserved"
)

const (
	textHostOfBackend = "cannot modify 'host' header, when route has set 'rewrite.host_to_backend_hostname' option"
	textHeaderName    = "must be a header name"
	textHeaderValue   = "must consist of characters that a header can have"
	textPseudoHeader  = "HTTP/2 pseudo-headers are not allowed to be modified"
	textOneFilter     = "must have exactly one member"
	textOneRewrite    = "exactly one of replaceFull and replacePrefixMatch has to be set"
	textFilterTwice   = "only one of each sort is possible, except for headers and mirrors"
	textStatusCode    = "must be one of 301, 302, 303, 307 and 308"
	textNoPrefix      = "cannot be used without a match on path prefix"
	textScheme        = "must be http or https"
	textSetHost       = "of the host there can be one value: use set"
	textHostOfRequest = "only requests have a host"
	textHostValue     = "must be a host name or an address, perhaps with a port"
)

// gatewayFilters checks the filters of a rule and reports whether it redirects. prefixed says
// that all matches of the rule are prefixes.
func (vs *violations) gatewayFilters(path string, fs []GatewayFilter, prefixed bool) (redirects bool) {
	if len(fs) > maxGatewayMatches {
		vs.add(path, tooMany("64"))
		return false
	}
	own := slices.ContainsFunc(fs, func(f GatewayFilter) bool { return f.Rewrite != nil && f.Rewrite.HostToBackendHostname })
	rewrites := 0
	for i := range fs {
		f, at := &fs[i], indexed(path, i)
		n := 0
		if f.RequestHeader != nil {
			n++
			vs.gatewayHeaders(at+".request_header", f.RequestHeader, true, own)
		}
		if f.ResponseHeader != nil {
			n++
			vs.gatewayHeaders(at+".response_header", f.ResponseHeader, false, false)
		}
		if f.Mirror != nil {
			n++
			vs.gatewayMirror(at+".mirror", f.Mirror)
		}
		if f.Redirect != nil {
			n++
			redirects = true
			vs.gatewayRedirect(at+".redirect", f.Redirect, prefixed)
		}
		if f.Rewrite != nil {
			n++
			rewrites++
			vs.gatewayRewrite(at+".rewrite", f.Rewrite, prefixed)
		}
		if n != 1 {
			vs.add(at, textOneFilter)
		}
	}
	if redirects && len(fs) > 1 {
		vs.add(path, "redirects cannot be used with other filters")
	}
	if rewrites > 1 {
		vs.add(path, textFilterTwice)
	}
	return redirects
}

// gatewayHeaders checks edits of headers. The host of a request can be set, unless it becomes
// that of the backend.
func (vs *violations) gatewayHeaders(path string, h *GatewayHeaderFilter, request, hostOfBackend bool) {
	switch n := len(h.Set) + len(h.Add) + len(h.Remove); {
	case n == 0:
		vs.add(path, textEmpty)
	case n > maxGatewayMatches:
		vs.add(path, tooMany("64"))
		return
	}
	name := func(at, name string, set bool) {
		switch {
		case hostHeader(name) && request && hostOfBackend:
			vs.add(at, textHostOfBackend)
		case hostHeader(name) && !request:
			vs.add(at, textHostOfRequest)
		case hostHeader(name) && set:
		case hostHeader(name):
			vs.add(at, textSetHost)
		default:
			vs.headerName(at, name)
		}
	}
	each := func(list string, hs []GatewayHeader) {
		for i := range hs {
			at := indexed(path+"."+list, i)
			name(at+".name", hs[i].Name, list == "set")
			switch v := hs[i].Value; {
			case v == "":
				vs.add(at+".value", textEmpty)
			case hostHeader(hs[i].Name) && (len(v) > maxHost || !hostValue.MatchString(v)):
				vs.add(at+".value", textHostValue)
			case !httpguts.ValidHeaderFieldValue(v):
				vs.add(at+".value", textHeaderValue)
			default:
				vs.bounded(at+".value", v, maxHeaderValue)
				if wrong := reserved.WrongLiteral(v); wrong != "" {
					vs.add(at+".value", wrong)
				}
			}
		}
	}
	each("set", h.Set)
	each("add", h.Add)
	for i, n := range h.Remove {
		name(indexed(path+".remove", i), n, false)
	}
}

// hostValue is what a host is set to. Unlike in other headers, nothing in it is doubled or escaped on
// the way to proxies.
var hostValue = regexp.MustCompile(`^([a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?$`)

func hostHeader(name string) bool { return strings.EqualFold(name, "host") || name == ":authority" }

// headerName checks the name of a header that is matched or edited.
func (vs *violations) headerName(path, name string) {
	switch {
	case name == "":
		vs.add(path, textEmpty)
	case name[0] == ':':
		vs.add(path, textPseudoHeader)
	case !httpguts.ValidHeaderFieldName(name):
		vs.add(path, textHeaderName)
	default:
		vs.bounded(path, name, maxGatewayText)
		vs.sent(path, name)
	}
}

func (vs *violations) gatewayMirror(path string, m *GatewayMirror) {
	switch p := m.Percentage; {
	case p == nil:
		vs.add(path+".percentage", textEmpty)
	case !(*p >= 0 && *p <= 100):
		vs.add(path+".percentage", "has to be in [0.0 - 100.0] range")
	}
	if m.Backend == nil {
		vs.add(path+".backend", textEmpty)
		return
	}
	vs.backend(path+".backend", m.Backend)
}

func (vs *violations) gatewayRedirect(path string, r *GatewayRedirect, prefixed bool) {
	if r.Scheme != "" && r.Scheme != "http" && r.Scheme != "https" {
		vs.add(path+".scheme", textScheme)
	}
	if r.Hostname != "" && (!dnsName.MatchString(r.Hostname) || len(r.Hostname) > maxHost) {
		vs.add(path+".hostname", "invalid hostname")
	}
	if r.Port != nil {
		vs.port(path+".port", *r.Port)
	}
	switch {
	case r.StatusCode < 300 || r.StatusCode > 308:
		vs.add(path+".status_code", "must be in the range [300, 308]")
	case !slices.Contains([]uint32{301, 302, 303, 307, 308}, r.StatusCode):
		vs.add(path+".status_code", textStatusCode)
	}
	if r.Path != nil {
		vs.gatewayPathRewrite(path+".path", r.Path, prefixed)
	}
}

func (vs *violations) gatewayRewrite(path string, r *GatewayRewrite, prefixed bool) {
	switch p := r.Path(); {
	case p != nil:
		vs.gatewayPathRewrite(path, p, prefixed)
	case !r.HostToBackendHostname:
		vs.add(path, textEmpty)
	}
}

func (vs *violations) gatewayPathRewrite(path string, p *GatewayPathRewrite, prefixed bool) {
	if (p.ReplaceFull == nil) == (p.ReplacePrefixMatch == nil) {
		vs.add(path, textOneRewrite)
		return
	}
	at, value := path+".replaceFull", p.ReplaceFull
	if value == nil {
		if at, value = path+".replacePrefixMatch", p.ReplacePrefixMatch; !prefixed {
			vs.add(at, textNoPrefix)
		}
		if *value == "" { // as "/" does, it takes the prefix away
			return
		}
	}
	switch {
	case !strings.HasPrefix(*value, "/"):
		vs.add(at, textNotAbsolute)
	case strings.ContainsAny(*value, "?#") || !httpguts.ValidHeaderFieldValue(*value):
		vs.add(at, textPathMark)
	default:
		vs.bounded(at, *value, maxGatewayText)
		vs.sent(at, *value)
	}
}
