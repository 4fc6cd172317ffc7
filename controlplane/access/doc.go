// Package access decides who may do what. It does no I/O: callers are identified before, and
// what a request needs follows from its endpoint.
//
// A right is what an endpoint needs, a scope is where. Without roles the decision is that of
// the reference: everybody may read and write, and what reveals or hands out credentials is
// for administrators and for those whom the settings name. As soon as any role exists,
// callers have what their roles give them and nothing else, and callers without an identity
// have nothing.
//
// Administrators, by name or group, may do everything in either case, so that no setting can
// lock out the holder of the first token.
package access
