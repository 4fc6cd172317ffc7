package sidecar

import (
	"errors"
	"testing"
)

// TestMemoForgetsWhatNobodyAsksFor also checks that each cell is built once.
func TestMemoForgetsWhatNobodyAsksFor(t *testing.T) {
	m := newMemo[int, int]()
	build := func(k int) (int, error) { return 2 * k, nil }
	for k := range 2000 {
		if v, err := of(m, 1, k, build); v != 2*k || err != nil {
			t.Fatal(v, err)
		}
	}
	if !m.crowded() {
		t.Error("2000 cells are not crowded")
	}
	_, _ = of(m, 2, 7, build) // asked for again
	m.sweep(2)
	if len(m.cells) != 1 || m.cells[7] == nil || m.crowded() || m.made != 2000 {
		t.Errorf("left are %d cells, made %d", len(m.cells), m.made)
	}
}

// TestPanicFailsOneCell: a panic fails one cell, and is remembered like any error.
func TestPanicFailsOneCell(t *testing.T) {
	m, calls := newMemo[int, int](), 0
	for range 2 {
		if _, err := of(m, 1, 1, func(int) (int, error) { calls++; panic("x") }); err == nil {
			t.Error("no error")
		}
	}
	want := errors.New("x")
	if _, err := of(m, 1, 2, func(int) (int, error) { return 0, want }); !errors.Is(err, want) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
