// Package identity makes and checks identities: the control plane's certificate authority,
// the certificates that it signs (of the data-plane server, of the gateways' public
// listener, and the client certificates of nodes), and the tokens of nodes, gateways and
// dataplanes, with the keys that sign them. The authorities of meshes, and the certificates
// of their proxies, are in package meshca.
//
// Private keys are stored encrypted. Only the authority's certificate is written to a file,
// so that others can pin it.
package identity
