// Package oauth is the OAuth 2.0 server behind the issuing endpoints of
// gateways, and the source of token records for introspection.
//
// A gateway's filter recognises an issuing endpoint, runs the route's plugins,
// and hands the request over with the headers of filter/contract; it proves to
// be a gateway by its client certificate. The handler owns the phases that all
// grants share: HTTPS rule, parameters, client authentication, scopes, minting
// and the reply. A [Grant] only declares what it needs and says what to issue,
// so no grant can forget a shared step; one file per grant.
//
// Sources: RFC 6749 sections 2.3, 4.4, 5.1 and 5.2; RFC 6750 section 3;
// requirement "POST /oauth2/token".
package oauth
