// Package operator has the commands that ask a running control plane: which nodes exist and
// whether anything is wrong, what changed, which keys there are. They use the APIs like
// everybody else, so they run anywhere.
package operator
