// Package mesh holds the vocabulary of the mesh: tags and selectors, the kinds that are not
// policies (Mesh, Dataplane, Secret, GlobalSecret), their validation, and the names that the
// control plane uses towards proxies. Each policy has its own package below xds/policy.
package mesh
