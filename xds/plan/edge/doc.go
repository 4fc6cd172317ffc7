// Package edge plans gateway proxies: two listeners, one route table that both share, one
// cluster per service, and the cluster of the OAuth server.
//
// Changes of services, routes and plugins change the route table and clusters but never a
// listener, so they do not affect open connections. Everything is a pure function of a view
// and the proxy's [Params]; proxies with equal parameters share every byte.
//
// Section numbers in comments ("routing rules") refer to the routing rules in the user
// documentation: attribute priority, prefix paths and the table of upstream URLs.
package edge
