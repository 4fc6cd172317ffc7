// Package interpret says what an Envoy does with one imagined request, by the configuration that
// it was sent: listener, filter chain, route, HTTP filters, cluster and endpoint. It knows the
// subset of Envoy's configuration that the planners make. A field or an extension that it does
// not know is an [Unsaid], never a guess: every message that it reads is first compared with the
// list of the fields that it understands.
//
// What only time decides is not decided here. A share of a split, a fault for a percentage of
// requests, and a limit on a rate are in the answer as what they are. Endpoints count as healthy.
package interpret
