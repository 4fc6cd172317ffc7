// Package insight is what the control plane knows about proxies by watching them: when they
// connected, what they were sent and how they answered, which certificates they hold, what
// they run. None of it is part of the model: it has no revision, wakes no view, and never
// causes planning.
//
// [Insights] holds the newest state of every known proxy in memory, from which it answers
// all reads. It writes changes to a [store.Status] in batches: soon after a disconnect,
// otherwise every ten seconds. The memory of one proxy is bounded: two subscriptions, one
// text per type, versions of limited length.
//
// It is the only place that knows which nodes exist, sidecars and gateways, and why they are
// away: see [Insights.Nodes] and [Insights.Refused].
package insight
