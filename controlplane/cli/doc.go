// Package cli has what all commands share: settings as flags, help texts, errors that say
// what to do instead, and exit codes.
package cli
