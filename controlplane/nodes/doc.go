// Package nodes answers who is there: every node that was ever seen and not removed,
// sidecar or gateway, connected or away since when and why, with what it should have,
// was sent and has acknowledged. What is away is counted, never left out.
//
// It keeps nothing. Who exists and what became of them is known to [insight.Insights],
// how far those are that are connected to [snapshot.Store], which filters may answer
// from memory to the revoker. A [Registry] puts them together, for both APIs, for
// /revisions and for metrics.
package nodes
