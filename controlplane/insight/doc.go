// Package insight is what the control plane knows about proxies by watching
// them: when they connected, what they were sent and what they made of it, which
// certificates they hold, what they run. None of it is part of the model: it has
// no revision, wakes no view, and is never a reason to plan anything.
//
// [Insights] holds the newest state of every known proxy in memory, which answers
// all reads, and writes what changed to a [store.Status] in batches: after a
// disconnect at once, otherwise every ten seconds. What a proxy can make it keep
// is bounded: two subscriptions, one text per type, versions of limited length.
//
// It is the one place that knows which nodes there are, sidecars and gateways, and why
// they are away: see [Insights.Nodes] and [Insights.Refused].
package insight
