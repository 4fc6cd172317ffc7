//go:build !race

package few

// race says that the race detector watches.
const race = false
