// Package demo runs the whole system on one machine, with its own upstreams and a mesh. It
// tells a story in which each step is a request that was really made.
package demo
