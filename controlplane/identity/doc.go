// Package identity makes and checks who is who: the control plane's certificate
// authority, the certificates it signs (the data-plane server, the gateways'
// public listener, the client certificates of nodes) and the tokens of nodes; for
// meshes their authorities with the rotation of them, the identities of proxies,
// and the tokens of proxies.
//
// Private keys live in the store, encrypted at rest; only the authority's
// certificate is written to a file, for others to pin.
package identity
