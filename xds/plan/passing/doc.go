// Package passing plans proxies that pass connections on as they are. Such a proxy is told by the
// server name (SNI) of a connection which service of which mesh it is for. It has no certificate and
// no key of any mesh for this, and judges nothing: the proxies at both ends authenticate each other.
// A connection with any other server name, or without one, is closed.
//
// A [Role] says which services these are. What a service contributes is made once for all proxies of
// a role, and again only if the service changes.
package passing
