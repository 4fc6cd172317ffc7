package oauth

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/store"
)

// maxIssuerRoutes bounds the routes whose hosts are looked at. A service with
// more of them needs config.issuer.
const maxIssuerRoutes = 256

// ownNames are those of the certificate that a gateway makes for itself.
var ownNames = []string{"localhost", "127.0.0.1", "::1"}

// issuerOf is the identifier of the authorisation server that a request
// addresses, RFC 8414 section 2: the configured one, or the URL of what precedes
// the endpoint, if the operator has named its host. Anything else a stranger
// could make up; then it is empty.
func (t *Request) issuerOf(tx store.Reader, r *http.Request, path string) (string, error) {
	if t.Config.Issuer != "" {
		return t.Config.Issuer, nil
	}
	host := strings.ToLower(r.Host)
	name, port := host, ""
	if n, p, err := net.SplitHostPort(host); err == nil {
		name, port = n, p
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if _, err := strconv.ParseUint(port, 10, 16); port != "" && err != nil {
		return "", nil
	}
	known, err := t.names(tx, name, port)
	if !known || err != nil {
		return "", err
	}
	return "https://" + host + path, nil
}

// names reports whether the operator of the plugin has named a host: in a certificate of
// the gateways, or in a route of the plugin. What other members name is theirs.
func (t *Request) names(tx store.Reader, name, port string) (bool, error) {
	if strings.Contains(name, "*") {
		return false, nil
	}
	if slices.Contains(ownNames, name) {
		return true, nil
	}
	shown := []string{name}
	if _, domain, ok := strings.Cut(name, "."); ok {
		shown = append(shown, "*."+domain)
	}
	for _, sni := range shown {
		_, err := tx.Find(gateway.SNIs, t.plugin.Scope, gateway.IndexName, sni)
		if err == nil || !fault.Is(err, fault.NotFound) {
			return err == nil, err
		}
	}
	routes, err := t.routes(tx)
	for _, r := range routes {
		for _, h := range r.Hosts {
			p, ok := gateway.ParseHost(h)
			if ok && p.Name == name && (p.Port == 0 || strconv.Itoa(int(p.Port)) == port) {
				return true, nil
			}
		}
	}
	return false, err
}

// routes are those that the plugin answers for, none if there are too many.
func (t *Request) routes(tx store.Reader) (out []*gateway.Route, err error) {
	if t.attached.Route != "" {
		res, err := tx.Get(gateway.Routes, t.plugin.Scope, t.attached.Route)
		if err != nil {
			return nil, err
		}
		return []*gateway.Route{res.Spec.(*gateway.Route)}, nil
	}
	if t.Service == "" {
		return nil, nil
	}
	list, err := tx.List(gateway.Routes, store.Query{
		Scope: t.plugin.Scope, Index: gateway.RefService, Value: t.Service, Limit: maxIssuerRoutes + 1,
	})
	if err != nil || len(list) > maxIssuerRoutes {
		return nil, err
	}
	for _, res := range list {
		out = append(out, res.Spec.(*gateway.Route))
	}
	return out, nil
}
