// Package gatewayapi is the administration API of the gateway: services, routes, consumers,
// plugins, OAuth applications and tokens. Every path, body, error and page follows from the
// kinds, their references and their schemas. A new kind needs only a [Collection].
//
// Callers authenticate with a bearer token, if one is configured. Without it the API is meant
// for loopback, where the program opens it by default. There [httpkit.BrowserGuard] refuses
// requests that a web page of another origin could cause. For the same reason
// Access-Control-Allow-Origin is sent only to configured origins, and not to everybody as by
// older gateways.
//
// The OpenAPI document at /openapi.json and the descriptions below /schemas follow from the
// endpoints and the schemas of the kinds.
//
// The answer to every write has the header X-Mesh-Revision. GET /revisions/{rev} tells when
// proxies have the revision.
//
// Source: requirement "Administration endpoints used with the plugin".
package gatewayapi
