// Package contract is what the filter inside Envoy and the control plane agree
// on: the chain of plugins a route carries, the record of one token, the
// filter's own settings, the messages of the freshness link and every wire name
// that both sides spell. It holds plain structs and their codecs, does no I/O
// and imports nothing of this project.
//
// Chains, records and settings are JSON, so that an operator can read them in
// Envoy's config dump, in Redis and in the run directory; they are decoded
// strictly, because a misspelt security setting must refuse and never be
// ignored. Link messages are binary frames. Package documentation of the link
// protocol: docs/adr/0003-freshness.md.
package contract
