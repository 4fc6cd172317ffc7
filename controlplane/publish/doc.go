// Package publish turns changes of views into published configuration. A scope is a control
// plane or a mesh. Each scope has its own goroutine and its own lock. The goroutine
// coalesces changes (it handles the first change after a quiet period at once), plans each
// class of proxies once, and publishes all differences of the scope together. A scope that
// is loaded, is slow, fails or panics does not delay other scopes. A resource or a scope
// that cannot be planned keeps its last good version and is listed in [Loop.Failures].
//
// Locks are taken in this order: the enrolling lock of a control plane, the lock of one
// plane, [Loop.mu]. The lock of a plane is held while the plane plans and publishes. The
// lock of the loop is held only briefly. No goroutine holds the locks of two planes.
package publish
