// Package oauth is the OAuth 2.0 server behind the endpoints of gateways, and the source of
// token records for introspection by filters.
//
// A gateway's filter recognises an endpoint, runs the route's plugins, and hands the request
// over with the headers of filter/contract. It proves to be a gateway by its client
// certificate. The handler owns the phases that all grants share: HTTPS rule, parameters,
// client authentication, minting and the reply. A [Grant] only declares what it needs and
// says what to issue, so no grant can forget a shared step. Each grant has its own file.
//
// # Once
//
// Codes and refresh tokens are used up in the transaction that stores what they are exchanged
// for. So of any number of requests, at any number of servers on one store, one succeeds, and
// a transaction that is not committed uses nothing up. Nothing slow, such as hashing a
// secret, happens inside a transaction.
//
// # Families
//
// All tokens that come from one authorisation share a family. In the strict profile
// ([gateway.ProfileOAuth21]) used values are remembered. The second use of one revokes the
// family through the one write path, and so at once on all gateways.
//
// There is one exception, because an answer may have been lost: for some seconds after its
// rotation, a refresh token of a confidential client is accepted again. The answer is the
// same pair as before, as long as nobody has redeemed it. So a family is one chain in which
// one token lives.
//
// Sources: RFC 6749, 6750, 7009 (revocation), 7636 (PKCE), 7662 (introspection), 8414
// (metadata), 9207 (issuer), 9700 (the strict profile); requirement "Endpoints".
package oauth
