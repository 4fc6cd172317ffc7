// Package loop turns batches of view changes into published configuration. It
// coalesces batches (the first after a quiet moment is handled at once), plans
// each class of proxies once, and publishes what differs for all proxies of a
// batch together. A resource or a control plane that cannot be planned keeps its
// last good version, shows up in [Loop.Failures], and holds up nobody.
package loop
