// Package prober checks, in the agent of a proxy, whether the workloads of its inbounds are there,
// and tells the control plane where it finds something else than the mesh holds.
//
// Every probed inbound has one goroutine, which connects, waits and counts. One more follows what is
// to be probed, and one reports. [Prober.Run] owns them all.
package prober
