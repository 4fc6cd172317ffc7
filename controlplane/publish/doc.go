// Package publish turns changes of views into published configuration. Each scope, a
// control plane or a mesh, has a goroutine and a lock of its own: it coalesces changes
// (the first after a quiet moment is handled at once), plans each class of proxies once,
// and publishes what differs for all its proxies together. A scope that is loaded, is
// slow, fails or panics holds up no other one. A resource or a scope that cannot be
// planned keeps its last good version and shows up in [Loop.Failures].
//
// Locks are taken in this order: the one by which gateways enrol, that of one plane,
// [Loop.mu]. A plane's is held while it plans and publishes, Loop's for moments only.
// Nobody holds the locks of two planes.
package publish
