// Package oauthtest holds what the OAuth endpoints of a gateway and the routes
// it protects answer, as data: cases in testdata/*.yaml that a person can read
// and that anything which serves the administration API and the endpoints can
// be held against. The package knows nothing of how either is made.
//
// A case has a world of its own (see [Case]), made by administrative requests,
// and steps. A step sends one request and says what the answer must be. All
// texts of steps may hold variables: ${case} the name of the case, ${route} the
// path of its route, ${client} client_id and client_secret of its application
// as form parameters, ${public} the client_id parameter of its public client,
// ${auth} what a backend sends along to the authorisation endpoint, ${app} and
// ${secret} the application's client_id and secret, ${key} the provision key,
// ${upstream} a port with an upstream, ${authority} host and port of the gateway,
// ${iss} the issuer as it stands in a redirect_uri, and whatever earlier steps saved.
//
// Expected texts may hold <random> for 32 letters and digits, <uuid>, <int>,
// and <any> for anything.
package oauthtest
