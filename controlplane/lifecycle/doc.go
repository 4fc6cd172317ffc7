// Package lifecycle is what accompanies a mesh: the secrets of its builtin
// authorities, the key that signs its dataplane tokens and its first policies come
// with it, and everything in it goes with it. It hooks into package admit, so that
// all of this happens in the transaction of the mesh itself, whoever writes it.
//
// Keys and authorities are made by functions that main passes in.
package lifecycle
