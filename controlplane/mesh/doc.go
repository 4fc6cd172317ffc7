// Package mesh has the vocabulary of the mesh: tags and selectors, the kinds that
// are no policies (Mesh, Dataplane, Secret, GlobalSecret), their validation, and
// the names that the control plane gives to things on the wire. Policies have a
// package each, below xds/policy.
package mesh
