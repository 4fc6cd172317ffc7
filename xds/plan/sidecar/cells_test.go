package sidecar

import (
	"reflect"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
)

// TestCrowdedOriginalsAreSwept: the clusters of redirections alone are reason enough.
func TestCrowdedOriginalsAreSwept(t *testing.T) {
	p := &Planner{cells: newCells()}
	for port := range uint32(2000) {
		_, _ = of(p.cells.originals, p.round, redirectKey{port: port}, func(redirectKey) (*resource.Resource, error) { return nil, nil })
	}
	p.sweep()
	if n := len(p.cells.originals.cells); n != 0 {
		t.Errorf("%d cells that nobody uses are left", n)
	}
}

// TestEveryMemoryIsSwept: each memory is begun, and so in the list of those that are swept.
func TestEveryMemoryIsSwept(t *testing.T) {
	c := newCells()
	var swept []uintptr
	for _, m := range c.all {
		swept = append(swept, reflect.ValueOf(m).Pointer())
	}
	memories := 0
	for field, value := range reflect.ValueOf(c).Fields() {
		if value.Kind() != reflect.Pointer {
			continue
		}
		memories++
		if !slices.Contains(swept, value.Pointer()) {
			t.Errorf("%s is not swept", field.Name)
		}
	}
	if memories == 0 || memories != len(swept) {
		t.Errorf("%d memories, of which %d are swept", memories, len(swept))
	}
}
