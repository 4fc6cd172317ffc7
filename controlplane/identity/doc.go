// Package identity makes and checks who is who: the control plane's certificate
// authority, the certificates it signs (the data-plane server, the gateways'
// public listener, the client certificates of nodes) and the tokens of nodes,
// gateways and dataplanes alike, with the keys that sign them. The authorities of
// meshes, and the certificates of their proxies, are in package meshca.
//
// Private keys live in the store, encrypted at rest; only the authority's
// certificate is written to a file, for others to pin.
package identity
