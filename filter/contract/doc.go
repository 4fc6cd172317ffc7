// Package contract is what the filter inside Envoy and the control plane agree on: the chain
// of plugins of a route, the record of one token, the filter's own settings, the messages of
// the freshness link, and every name that both sides use on the wire. It consists of plain
// structs and their codecs, does no I/O and imports nothing of this project.
//
// Chains, records and settings are JSON, so that an operator can read them in Envoy's config
// dump, in Redis and in the run directory. They are decoded strictly, because a misspelt
// security setting must never be ignored. Link messages are binary frames. The link protocol
// is documented in docs/adr/0003-freshness.md.
package contract
