// Package edge plans oauth-gateway proxies: two listeners, one route table
// that both share, one cluster per service, and the cluster of the OAuth server.
//
// Writes of services, routes and plugins change the route table and clusters,
// never a listener, so they touch no open connection. Everything is a pure
// function of a view and the proxy's [Params]; proxies with equal parameters
// share every byte.
//
// Section numbers in comments ("routing rules") mean the routing rules that the
// user documentation states: attribute priority, prefix paths and the table of
// upstream URLs.
package edge
