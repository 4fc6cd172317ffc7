package publish

import (
	"maps"
	"slices"
)

// Planes returns the ids of the planes that are followed.
func (l *Loop) Planes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.planes))
}
