// Package extauthz is the filter as an authorization service of any Envoy: a gRPC server
// for envoy.service.auth.v3.Authorization, which Envoy's ext_authz filter asks about each
// request. It decides as the dynamic module does, with the same engine, token cache and
// freshness link, and costs a call to another process for each request.
//
// # What Envoy must be told
//
// The ext_authz filter fails closed (failure_mode_allow false), sends raw headers
// (encode_raw_headers), all of them, and validates mutations. Each route says by its context extensions what applies
// to it: [ChainExtension] is its chain, and [BodyExtension] is "true" where Envoy sends
// bodies (with_request_body with max_request_bytes [MaxBody], allow_partial_message and
// pack_as_bytes). [IssueExtension] is
// "true" where there is a route to the OAuth server and clear_route_cache has it found. With that
// every request that is accepted is routed again, so no route may match on what a chain hides. include_tls_session tells how the client
// came; one that sends no server name (SNI) counts as not encrypted. A route without a chain must disable the filter: a request without one
// is refused.
//
// # What it cannot do
//
// An authorization service cannot change bodies, and does not see trailers. A chain that
// hides credentials in bodies is refused, and so is one that looks for them in bodies where
// the route does not send any. Envoy's header mutation
// removes the trailers that clients may not send, see docs/filter.md.
package extauthz
