// Package cli is what all commands share: settings as flags, help texts, errors that say
// what to do instead, and codes with which a program ends.
package cli
