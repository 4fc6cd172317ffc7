// Package ingress plans the ingresses of a zone: the proxies through which proxies in other zones
// reach the services of all meshes of this one.
//
// An ingress is told by the server name (SNI) of a connection which service of which mesh it is
// for, and passes it on as it is. The proxies at both ends authenticate each other, so an ingress
// has no certificate and no key of any mesh, and judges nothing. It leads to dataplanes of its own
// zone only, never to another ingress, so that no connection goes in circles. A connection with
// any other server name, or without one, is closed.
//
// What a service contributes is made once for all ingresses, and again only if the service changes.
package ingress
