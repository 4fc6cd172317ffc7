// Package operator has the commands that ask a running control plane: who is there and
// whether anything is wrong, what changed, which keys there are. They go through the APIs
// as everybody else does, so they run anywhere.
package operator
