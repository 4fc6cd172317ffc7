// Package lifecycle creates and deletes what belongs to a mesh. The secrets of its builtin
// authorities, the key that signs its dataplane tokens and its first policies are created
// with it, and everything in it is deleted with it. The package hooks into package admit, so
// that all of this happens in the transaction of the mesh, whoever writes it.
//
// Main passes in the functions that make keys and authorities.
package lifecycle
