// Package sidecar plans the proxies of one mesh, incrementally. A [Planner] is
// told what changed in the view, works out which pieces that may concern, builds
// those anew, and returns the sets of the proxies whose bytes differ.
//
// Four ideas keep a change cheap. A cell is a pure function of a small key (one
// cluster, one assignment, one listener, one route table) and is built once for
// all who need it. Proxies of one shape are a class: the replicas of a service
// share the vectors of everything but their own inbound listeners. Classes that get
// to the same services in the same way share a reach, the list of their outbounds,
// also if they serve different services. And a reverse index leads from a service to
// the outbounds that reach it, so that nothing else is even looked at.
//
// Whatever the order of changes, the result equals a plan made from nothing; in
// tests and on request every batch is held against one ([Planner.Check]).
package sidecar
