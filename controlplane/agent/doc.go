// Package agent runs one Envoy. It keeps the run directory, holds the configuration stream
// to the control plane through the relay, starts Envoy, restarts it when it dies, carries
// its log lines, and drains it before it is stopped. A restarted Envoy is served from the
// relay's cache on disk, so it serves at once even while the control plane is away.
package agent
