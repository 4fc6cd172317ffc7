// Package client is how commands ask a running control plane.
//
// There is one way to say which control plane is meant, how it is known and who asks:
// [Options], which are the flags --address, --ca-cert-file and --token-file of every
// such command. Either API can be asked. Whatever goes wrong is one sentence that names
// the flag that mends it: whoever reads it does so at night.
package client
