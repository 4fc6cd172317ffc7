// Package client lets commands call a running control plane.
//
// [Options] say which control plane is meant, which certificate it must have, and who is
// calling. They are the flags --address, --ca-cert-file and --token-file of every such
// command. Both APIs can be called. Every error is one sentence that names the flag which
// helps, because operators read it under pressure.
package client
