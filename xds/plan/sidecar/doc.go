// Package sidecar plans the proxies of one mesh incrementally. A [Planner] is told what
// changed in the view. It determines which pieces are affected, rebuilds those, and returns
// the sets of the proxies whose bytes differ.
//
// Four ideas keep a change cheap. First, a cell is a pure function of a small key (one
// cluster, one assignment, one listener, one route table) and is built once for all proxies
// that need it. Second, proxies of one shape are a class: the replicas of a service share
// everything but their own inbound listeners. Third, classes that reach the same services in
// the same way share a reach, the list of their outbounds, even if they serve different
// services. Fourth, a reverse index leads from a service to the outbounds that reach it, so
// that the planner looks at nothing else.
//
// Whatever the order of changes, the result equals a plan made from nothing. In tests, and on
// request, every result is compared with one ([Planner.Check]).
package sidecar
