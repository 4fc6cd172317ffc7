package sidecar_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// entranceOfAll is a gateway with every sort of listener, match and filter.
func entranceOfAll(w *world) {
	pair("http")(w)
	w.under(mesh.ModeStrict)
	w.put(mesh.Dataplanes, meshName, "edge-1", entrance("127.0.0.51"))
	w.put(mesh.ExternalServices, meshName, "shop", external("shop.example:80", "shop", ""))
	for _, name := range []string{"wild", "foo"} {
		w.put(mesh.Secrets, meshName, name, &mesh.Secret{Data: []byte(clientPEM)})
	}
	for _, i := range []int{0, 1, 4} {
		w.raw(tuned[i])
	}
	t := w.t.(*testing.T)
	w.gateway(t, `  - {port: 18080, protocol: HTTP, resources: {connectionLimit: 100}}
  - {port: 18080, protocol: HTTP, hostname: foo.example.com}
`+secured+`  - {port: 9000, protocol: TCP, resources: {connectionLimit: 7}}
  - {port: 9443, protocol: TLS, hostname: db.example.com, tls: {mode: PASSTHROUGH}}
  - {port: 9443, protocol: TLS, hostname: "*.example.com", tls: {mode: TERMINATE, certificates: [{secret: wild}]}}
`)
	w.gatewayRoute(t, "tcp", `  tcp:
    rules:
    - backends: [{weight: 3, destination: {mesh.io/service: backend, version: v1}}, {weight: 1, destination: {mesh.io/service: backend, version: v2}}]
`)
	w.gatewayRoute(t, "http", `  http:
    hostnames: [foo.example.com, bar.example.com, "*.example.com"]
    rules:
    - matches:
      - {path: {match: EXACT, value: /exact}, method: POST}
      - {path: {match: PREFIX, value: /api/}, headers: [{name: x-a, value: "1"}, {name: x-b, match: REGEX, value: "[ab]+"}, {name: x-c, match: PRESENT}, {name: x-d, match: ABSENT}]}
      - {path: {match: REGEX, value: "/v[0-9]+/.*"}, queryParameters: [{name: q, value: "1"}, {name: r, match: REGEX, value: ".+"}]}
      filters:
      - requestHeader: {set: [{name: Host, value: inside.example}, {name: x-set, value: "100%"}], add: [{name: x-add, value: a}], remove: [x-gone]}
      - responseHeader: {set: [{name: x-back, value: b}], remove: [server]}
      - mirror: {percentage: 12.5, backend: {destination: {mesh.io/service: backend, version: v2}}}
      - rewrite: {replaceFull: /whole}
      backends: [{weight: 90, destination: {mesh.io/service: backend, version: v1}}, {weight: 10, destination: {mesh.io/service: backend, version: v2}}]
    - matches: [{path: {match: PREFIX, value: /shop}}]
      filters: [{rewrite: {replacePrefixMatch: /, hostToBackendHostname: true}}]
      backends: [{destination: {mesh.io/service: shop}}]
    - matches: [{path: {match: PREFIX, value: /under}}]
      filters: [{rewrite: {replacePrefixMatch: /v2/}}]
      backends: [{destination: {mesh.io/service: backend}}, {destination: {mesh.io/service: missing}}]
    - matches: [{path: {match: PREFIX, value: /old}}]
      filters: [{redirect: {statusCode: 301, path: {replacePrefixMatch: /new}}}]
    - matches: [{path: {match: PREFIX, value: /secure}}]
      filters: [{redirect: {scheme: https, hostname: a.example, statusCode: 308, path: {replaceFull: /}}}]
`)
	w.gatewayRoute(t, "all", `  http:
    rules:
    - matches: [{path: {match: PREFIX, value: /}}]
      filters: [{rewrite: {replacePrefixMatch: /all}}]
      backends: [{weight: 1, destination: {mesh.io/service: backend}}]
`)
}
