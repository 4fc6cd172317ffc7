package sqlstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// awaited claims a database in the background. The first channel tells that it has to wait.
func awaited(t *testing.T, path string) (<-chan string, <-chan *Claim) {
	t.Helper()
	waits, got := make(chan string, 9), make(chan *Claim, 1)
	go func() {
		c, err := AwaitClaim(t.Context(), path, func(path string) { waits <- path })
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	return waits, got
}

// TestClaim: who waits for a database gets it when its process closes it, and opens it then. Nobody else does.
func TestClaim(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "meshgate.db"), Kinds: []*model.Kind{mortals}}
	first, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	waits, got := awaited(t, o.Path)
	if path := <-waits; path != o.Path {
		t.Errorf("it waits for %s", path)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	claim := <-got
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("without the claim: %v", err)
	}
	o.Claim = claim
	second, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := claim.Close(); err != nil { // it is the store's now
		t.Error(err)
	}
	o.Claim = nil
	if _, err := Open(t.Context(), o); err == nil {
		t.Error("the store is not locked")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	third, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_ = third.Close()
	o.Claim = claim
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "it is not the database that was claimed") {
		t.Errorf("a claim that is over: %v", err)
	}
}

// TestClaimOfStatus is the same for the status database, and for a claim that is given back.
func TestClaimOfStatus(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "status.db")
	first, err := OpenStatus(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	waits, got := awaited(t, path)
	<-waits
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := (<-got).OpenStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, got = awaited(t, path)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := (<-got).Close(); err != nil {
		t.Error(err)
	}
	if second, err = OpenStatus(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
}

// TestClaimOfAnotherFile: if the database is removed with its lock while somebody waits, the wait goes on for the
// lock that is there now.
func TestClaimOfAnotherFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	o := Options{Path: path, Kinds: []*model.Kind{mortals}}
	first, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	waits, got := awaited(t, path)
	<-waits
	for _, part := range []string{"", "-wal", "-shm", ".lock"} {
		if err := os.Remove(path + part); err != nil {
			t.Fatal(err)
		}
	}
	second, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	select {
	case <-got:
		t.Error("the claim is on a file that is removed")
	default:
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	claim := <-got
	if there, err := isThere(claim.lock); !there || err != nil || len(waits) > 0 {
		t.Errorf("%v, %v, %d times more it was said", there, err, len(waits))
	}
	_ = claim.Close()
}

// TestClaimEnds: the end of the context ends the wait.
func TestClaimEnds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	first, err := Open(t.Context(), Options{Path: path, Kinds: []*model.Kind{mortals}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := AwaitClaim(ctx, path, func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	_ = first.Close()
}
