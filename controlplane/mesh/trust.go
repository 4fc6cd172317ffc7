package mesh

// Trust is what a mesh believes in, and who signs in it. It is kept by the
// control plane, one per mesh under the mesh's name, and is no part of an API;
// it holds nothing secret. A rotation of the authority changes it in steps, each
// of which is a revision of the store: first the new root is trusted, then the
// new authority signs, then the old root goes.
type Trust struct {
	// Backend is the name of the backend that the roots come from.
	Backend string `json:"backend"`
	// Issuer identifies the authority that signs: the SHA-256 of its certificate
	// in hex. Certificates of another issuer are to be replaced.
	Issuer string `json:"issuer"`
	// Roots is the PEM bundle that proxies verify their peers against.
	Roots []byte `json:"roots"`
	// Withdrawn counts how often a root was taken away. Connections that were
	// accepted before the last time are to end.
	Withdrawn uint64 `json:"withdrawn,omitempty"`
}
