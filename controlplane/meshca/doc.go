// Package meshca contains the certificate authorities of meshes: the roots that it makes for
// builtin backends, the authority in force in each mesh and the steps of its rotation, and
// the certificates of proxies with the times of their renewal.
//
// The private key of an authority is stored encrypted, and is only used here. What proxies
// are to trust is public, and is in the resource [mesh.Trusts]. The control plane's own
// authority, and the tokens that admit nodes, are in package identity.
package meshca
