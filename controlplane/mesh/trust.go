package mesh

// Trust says which roots a mesh trusts, and who signs in it. The control plane keeps one per
// mesh, under the mesh's name. It is not part of an API, and holds nothing secret. A rotation
// of the authority changes it in steps, each of which is a revision of the store: first the
// new root is trusted, then the new authority signs, then the old root is removed.
type Trust struct {
	// Backend is the name of the backend that the roots come from.
	Backend string `json:"backend"`
	// Issuer identifies the authority that signs: the SHA-256 of its certificate in hex.
	// Certificates of other issuers have to be replaced.
	Issuer string `json:"issuer"`
	// Roots is the PEM bundle with which proxies verify their peers.
	Roots []byte `json:"roots"`
	// Withdrawn counts how often a root was removed. Connections that were accepted before
	// the last removal must end.
	Withdrawn uint64 `json:"withdrawn,omitempty"`
}
