// Package inspect answers questions about what is configured and held. It only
// reads.
package inspect
