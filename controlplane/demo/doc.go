// Package demo runs the whole system on one machine, with upstreams and a mesh of its own,
// and tells a story with it: each step is a request that really was made.
package demo
