// Package egress plans the egresses of a zone: the proxies through which proxies of meshes with
// routing.zoneEgress reach services in other zones.
//
// An egress passes connections on as package passing describes. It leads to ingresses of other zones
// only, never to a dataplane of its own, so that no connection goes in circles.
package egress
