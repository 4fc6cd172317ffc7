// Package ingress plans the ingresses of a zone: the proxies through which proxies in other zones
// reach the services of all meshes of this one.
//
// An ingress passes connections on as package passing describes. It leads to dataplanes of its own
// zone only, never to another ingress, so that no connection goes in circles.
package ingress
