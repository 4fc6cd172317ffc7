// Package meshca has the certificate authorities of meshes: the roots that it makes for
// builtin backends, the authority in force in each mesh and the steps of its rotation,
// and the certificates of proxies with the moments at which they are renewed.
//
// An authority's private key lives in the store, encrypted at rest, and signs here only;
// what proxies are to trust is public and stands in the resource [mesh.Trusts]. The
// control plane's own authority, and the tokens by which nodes come in, are in package
// identity.
package meshca
