package tokencache

import (
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestOwnersOfOneIDAreApart: whoever gives a consumer or an application the id of another
// control plane's voids nothing of that one, neither in memory nor of what Redis holds. Where
// nobody says whose it is, both are void.
func TestOwnersOfOneIDAreApart(t *testing.T) {
	const others = 22 // has the credential and the consumer of token 1
	for _, subject := range []contract.Subject{contract.SubjectCredential, contract.SubjectConsumer} {
		id := of("plane-1", 1, 0).Consumer.ID
		if subject == contract.SubjectCredential {
			id = of("plane-1", 1, 0).Credential.ID
		}
		for plane, first := range map[string]contract.Answer{"plane-2": contract.Found, "plane-1": contract.Miss, "": contract.Miss} {
			inWorld(t, worldConfig{}, func(w *world) {
				l := w.group("plane-1", "plane-2")
				w.store.putRecord(t, 1, of("plane-1", 1, 5))
				w.store.putRecord(t, others, of("plane-2", others, 5))
				w.want("of one", w.resolve(1), contract.Found)
				w.want("of the other", w.resolve(others), contract.Found)
				w.store.putClock(1)
				l.invalidate(1, contract.Invalidation{Subject: subject, Plane: plane, ID: id, Revision: 7})
				l.expectAck(1)
				second := contract.Miss
				if plane == "plane-1" {
					second = contract.Found
				}
				w.want("in memory, of plane-1 after one of "+plane, w.lookup(1), first)
				w.want("in memory, of plane-2 after one of "+plane, w.lookup(others), second)
				w.cache.rescope(w.cache.standing.Load().scopes) // the records in Redis are what is left
				if got := w.resolve(1); (got == contract.Found) != (first == contract.Found) {
					t.Errorf("from redis after one of %q: %d", plane, got)
				}
			})
		}
	}
}

// TestOwnersOfWhoComes: a control plane that does not say whose owners it means tells of those
// of a member that comes before that is one. What was read before is void all the same.
func TestOwnersOfWhoComes(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		l := w.group("plane-1")
		w.store.putRecord(t, 1, of("plane-2", 1, 5))
		w.store.putRecord(t, 2, of("plane-2", 2, 8))
		w.store.putMembers(testEpoch, "plane-1", "plane-2")
		w.store.putClock(2)
		l.invalidate(1, contract.Invalidation{Subject: contract.SubjectConsumer, ID: "consumer-1", Revision: 7})
		l.json(contract.FrameScopes, groupOf("plane-1", "plane-2"))
		l.invalidate(2)
		l.expectAck(2)
		w.want("of before", w.resolve(1), contract.Unknown)
		w.want("of after", w.resolve(2), contract.Found)
	})
}
