// Package gatewayapi is the administration API of the gateway: services, routes,
// consumers, plugins, OAuth applications and tokens. Every path, body, error
// and page follows from the kinds, their references and their schemas; adding
// a kind is adding a [Collection].
//
// Callers prove who they are by a bearer token, if one is configured. Without
// it the API is meant for loopback, which is where the program opens it by
// default, and there it sits behind [httpkit.BrowserGuard]: requests that a web
// page of another origin could cause are refused. For the same reason
// Access-Control-Allow-Origin is not sent to everybody, as older gateways do,
// but only to configured origins.
//
// The OpenAPI document at /openapi.json and the descriptions below /schemas
// follow from the endpoints and the schemas of the kinds.
//
// Every write answers the header X-Mesh-Revision; GET /revisions/{rev} tells
// when proxies hold it.
//
// Source: requirement "Administration endpoints used with the plugin".
package gatewayapi
