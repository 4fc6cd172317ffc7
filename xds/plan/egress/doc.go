// Package egress plans the egresses of a zone: the proxies through which services in other zones and
// services outside a mesh are called, by meshes that want this (routing.zoneEgress).
//
// What is for other zones an egress passes on as package passing describes. Of a service outside it
// ends the mutual TLS of the mesh, judges who calls, and calls the service as that demands; see
// [sidecar.Exits].
package egress
