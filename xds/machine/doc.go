// Package machine keeps configuration that comes over the wire from naming what belongs
// to the machine of a proxy: files, sockets, variables of its environment, libraries.
//
// Where a proxy's access log goes and which roots it trusts is said by whoever starts
// it, to its agent. If the control plane could say it, too, whoever has the token of a
// gateway could: the control plane believes what a gateway says of itself, and would
// tell the true one to write to a file that the thief has chosen. So the agent puts its
// own files in the place of those that are named ([Files.Admit]), and refuses whatever
// else names one: also a text that would read a variable as a format, and settings of the
// filter, which would send a file as a credential to whoever they name.
//
// What cannot be looked into is refused as well: an extension whose type this program
// does not have may name anything, and so may a field of a later version.
package machine
