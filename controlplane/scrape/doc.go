// Package scrape is the page of metrics that the agent of a proxy shows: what its Envoy counts and
// what the applications beside it count, as one page in Prometheus' text format 0.0.4.
//
// Nobody vouches for what an application answers. So [Merge] reads each line as strictly as
// Prometheus does and leaves out what is not in order: one bad line would cost the whole page,
// with everything about Envoy. [Page] asks, within bounds of time, bytes and lines that no
// application can use up for Envoy or for another application. The page itself says who did not
// answer, and what was left out.
package scrape
