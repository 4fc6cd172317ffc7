// Package accesslog makes the access log: Envoy's own loggers, which write lines of JSON.
// Gateways write one line per request. Sidecars write one for each request that they refused
// or could not deliver ([Sidecar]).
//
// At gateways, the result of a request is recorded in three places, none of which costs
// anything for a request that is simply let pass. The filter writes dynamic metadata when it
// refuses, waits or issues. The metadata of a route says what the route does with requests
// that the filter let pass. The headers that the filter sets tell who asked. Envoy's formats
// cannot choose between places, but loggers can: there is one logger for each [ending], with
// the same fields read from the right places, and exactly one of them accepts each request.
//
// Headers in which clients could name somebody else are read only for requests that the filter
// let pass, where it has removed what clients had sent. Paths are logged without their query,
// and formats of users may only use operators that show no credential.
package accesslog
