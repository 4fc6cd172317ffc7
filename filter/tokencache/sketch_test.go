package tokencache

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestSketchIsNeverTooLow: the floor of a subject is never lower than its own, no matter how
// many others share its buckets.
func TestSketchIsNeverTooLow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSketch(4)
		floors := map[spot]uint64{}
		subject := rapid.Custom(func(t *rapid.T) spot {
			return spot{rapid.Uint64Range(0, 15).Draw(t, "a"), rapid.Uint64Range(0, 15).Draw(t, "b")}
		})
		for range rapid.IntRange(0, 40).Draw(t, "raises") {
			at, revision := subject.Draw(t, "subject"), rapid.Uint64Range(1, 30).Draw(t, "revision")
			s.raise(at, revision)
			floors[at] = max(floors[at], revision)
		}
		for at, floor := range floors {
			if s.admits(at, floor-1) {
				t.Fatalf("%v: %d is admitted below the floor %d", at, floor-1, floor)
			}
			if !s.admits(at, 30) {
				t.Fatalf("%v: the newest revision is not admitted", at)
			}
		}
	})
}

// TestSketchRarelyMeetsTheInnocent compares what revocations of others cost innocent tokens
// and owners with what the buckets and rows promise. Three times as much would mean a bad
// hash.
func TestSketchRarelyMeetsTheInnocent(t *testing.T) {
	f := newFloors(1 << 30)
	const revoked, innocent = 30_000, 200_000 // expected: 0.18 % each
	for i := range revoked {
		h := hashOf(i)
		f.raiseToken(&h, 7)
		f.raiseOwner(f.ownerOf(testPlane, contract.SubjectConsumer, fmt.Sprint("consumer-", i)), 7)
	}
	tokens, owners := 0, 0
	for i := revoked; i < revoked+innocent; i++ {
		h := hashOf(i)
		if !f.admits(&h, 6, 0, 0) {
			tokens++
		}
		if !f.admitsOwners(6, f.ownerOf(testPlane, contract.SubjectCredential, fmt.Sprint("consumer-", i)), 0) {
			owners++
		}
	}
	if limit := innocent * 54 / 10_000; tokens > limit || owners > limit {
		t.Errorf("of %d innocents %d tokens and %d owners are met, more than %d", innocent, tokens, owners, limit)
	}
	for i := range revoked {
		if h := hashOf(i); f.admits(&h, 6, 0, 0) {
			t.Fatalf("token %d is admitted below its floor", i)
		}
	}
}
