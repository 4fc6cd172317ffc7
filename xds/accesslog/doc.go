// Package accesslog makes the access log: Envoy's own loggers, which write lines of JSON.
// Gateways write one for each request, sidecars one for each that they refused or could
// not deliver ([Sidecar]).
//
// At gateways, what became of a request is said in three places, and none of them costs anything
// where a request is simply let pass. The filter writes dynamic metadata when it
// refuses, waits or issues; the metadata of a route says what it does with requests
// that the filter let pass; who asked stands in the headers that the filter sets.
// Envoy's formats cannot choose between places, but loggers can: there is one for
// each [ending], with the same fields read from where they are then, and each request
// meets the filter of exactly one of them.
//
// Headers by which clients could name somebody else are read only on requests that
// the filter let pass, where it has removed what clients had sent. Paths are logged
// without their query, and formats of users are held to operators that show no
// credential.
package accesslog
