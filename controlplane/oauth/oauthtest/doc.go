// Package oauthtest describes, as data, the answers of a gateway's OAuth endpoints and of the
// routes that it protects. The cases in testdata/*.yaml are readable for people. Everything
// that serves the administration API and the endpoints can be tested with them. The package
// knows nothing about the implementation of either.
//
// A case has its own world (see [Case]), which administrative requests create, and steps. A
// step sends one request and describes the expected answer. All texts of steps may contain
// variables: ${case} the name of the case, ${route} the path of its route, ${client}
// client_id and client_secret of its application as form parameters, ${public} the client_id
// parameter of its public client, ${auth} the parameters that a backend sends to the
// authorisation endpoint, ${app} and ${secret} the application's client_id and secret, ${key}
// the provision key, ${upstream} a port with an upstream, ${authority} host and port of the
// gateway, ${iss} the issuer in the encoding of a redirect_uri, and everything that earlier
// steps saved.
//
// Expected texts may contain <random> for 32 letters and digits, <uuid>, <int>, and <any> for
// anything.
package oauthtest
