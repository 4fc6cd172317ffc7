// Package engine decides requests. Compile turns a chain into an immutable
// Program once; Program.Decide then needs no I/O, no lock and no allocation, and
// is safe for concurrent use.
package engine
