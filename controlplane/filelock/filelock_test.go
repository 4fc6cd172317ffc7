package filelock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f := given(t, path)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// given opens a file that somebody else closes.
func given(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestAwait: who waits for a lock says so once, and gets it when the holder's file is closed.
func TestAwait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := open(t, path)
	if err := Await(t.Context(), first, func() { t.Error("it waits for nobody") }); err != nil {
		t.Fatal(err)
	}
	if err := Try(open(t, path)); !errors.Is(err, ErrHeld) {
		t.Errorf("a lock that another one has: %v", err)
	}
	waits, got := make(chan struct{}, 2), make(chan error, 1)
	second := open(t, path)
	go func() { got <- Await(t.Context(), second, func() { waits <- struct{}{} }) }()
	<-waits
	select {
	case err := <-got:
		t.Fatalf("two have the lock: %v", err)
	default:
	}
	_ = first.Close()
	if err := <-got; err != nil || len(waits) > 0 {
		t.Errorf("%v, it said %d times more that it waits", err, len(waits))
	}
	if err := Try(open(t, path)); !errors.Is(err, ErrHeld) {
		t.Errorf("nobody has it: %v", err)
	}
}

// TestAwaitEnds: the end of the context ends the wait at once, and the lock that comes too late is not kept.
func TestAwaitEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := open(t, path)
	if err := Try(first); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := Await(ctx, given(t, path), cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	_ = first.Close()
	if err := Await(t.Context(), open(t, path), func() {}); err != nil {
		t.Error(err)
	}
}
