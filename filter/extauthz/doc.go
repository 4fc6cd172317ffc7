// Package extauthz is the filter as an authorization service of any Envoy: a gRPC server for
// envoy.service.auth.v3.Authorization, which Envoy's ext_authz filter asks about each
// request. It decides as the dynamic module does, with the same engine, token cache and
// freshness link. It costs a call to another process for each request.
//
// # What Envoy must be told
//
// The ext_authz filter must fail closed (failure_mode_allow false), send all headers raw
// (encode_raw_headers), and validate mutations. The context extensions of each route say
// what applies to it: [contract.AuthzChain] is its chain, and [contract.AuthzBody] is "true"
// if Envoy sends bodies (with_request_body with allow_partial_message and pack_as_bytes, and with
// max_request_bytes [contract.AuthzMaxBody] or a byte beyond [contract.MaxBody]: of any other
// limit the service would not see that a body was cut just there).
// [contract.AuthzIssue] is "true" if there is a route to the OAuth server that Envoy finds when
// it chooses a route again. clear_route_cache makes it do so after every accepted request, so no
// route may then match on something that a chain hides; package chain (xds/chain) has it done
// for requests for tokens only. The
// metadata [contract.AuthzScheme] of a call, or else include_tls_session, tells whether the
// client's connection is encrypted; with the latter a client that sends no server name (SNI)
// counts as not encrypted. The metadata [contract.AuthzClient] tells where the listener writes
// the address of the client, which otherwise is the peer. A route without a chain must disable the filter: a request without
// a chain is refused.
//
// What becomes of a request is noted in its dynamic metadata, under the name of Envoy's filter.
// For one that is handed over to the OAuth server that includes [contract.StateOAuth], so a
// listener need not believe the headers of the hand-over.
//
// # Who may ask
//
// Whoever asks says which chain decides, and learns which credentials are good. So the service
// listens on a Unix socket only, which [Listen] keeps for one user, and holds no more at once
// than it has room for, in bytes.
//
// # What it cannot do
//
// An authorization service cannot change bodies, and does not see trailers. A chain that
// hides credentials in bodies is refused, and so is one that looks for them in bodies if the
// route does not send any. Envoy's header mutation removes the trailers that clients may not
// send, see docs/filter.md.
package extauthz
