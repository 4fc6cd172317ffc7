// Package machine keeps configuration that arrives over the network from naming what belongs
// to the machine of a proxy: files, sockets, environment variables, libraries.
//
// Whoever starts a proxy tells its agent where the access log goes and which roots to trust.
// The control plane must not decide this. It believes what a gateway says of itself, so a
// thief with the token of a gateway could make it tell the true gateway to write to a file of
// the thief's choice. So the agent uses its own files in place of those that are named
// ([Bounds.Admit]), and refuses everything else that names one. It also refuses texts that
// would read a variable when formatted, and settings of the filter, which could send a file as
// a credential to an address that they name. Nobody is led to the relay or to the authorization
// service of the agent, and the filter is taken only in the way in which the proxy has it.
//
// Content that cannot be inspected is refused as well. An extension whose type this program
// does not know may name anything, and so may a field of a later version. It knows what it has
// linked: controlplane/cmd/meshgate/testdata/linked.golden lists that.
package machine
