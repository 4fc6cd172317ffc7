// Package nodes answers which nodes exist: every node that was ever seen and not removed,
// sidecar or gateway. It tells whether a node is connected, or since when and why it is
// away, and what configuration it should have, was sent and has acknowledged. Nodes that are
// away are counted, never left out.
//
// It stores nothing. [insight.Insights] knows which nodes exist and what became of them,
// [snapshot.Store] how far the connected ones are, and the revoker which filters may answer
// from memory. A [Registry] combines them for both APIs, for /revisions and for metrics.
package nodes
