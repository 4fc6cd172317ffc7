package tokencache

import "testing"

// Orders that random ones have found, or meet too seldom. Each ends with an answer of the look-up that it
// is about, so that none passes because nobody was answered.
func TestOrders(t *testing.T) {
	newWorld := modelWorlds(t)
	for name, o := range map[string]struct {
		order []event
		found int
	}{
		// The filter has no link, and believes Redis by what it was told before. Redis took
		// no writes while the token was revoked and created again. When the control plane
		// has put it in order, under the same epoch, the revocation is confirmed: what the
		// filter reads from then on must be the new record.
		"a token is created again before Redis has heard of its revocation": {[]event{
			{(*model).checkOne, 0}, // writes the record
			{(*model).toggleControl, 0},
			{(*model).toggleWritable, 0},
			{(*model).revokeToken, 0},
			{(*model).issue, 0},
			{(*model).toggleWritable, 0},
			{(*model).pass, 3}, // the keeper looks, and the lease ends
			{(*model).checkOne, 0},
		}, 2},
		// The filter has no link, and was told of a member that leaves. When its lease is over
		// that is confirmed, by Redis alone.
		"a member leaves, and comes back, while the filter is out of reach": {[]event{
			{(*model).checkOne, 3}, // of the other control plane
			{(*model).toggleControl, 0},
			{(*model).toggleMember, 0},
			{(*model).pass, 3},
			{(*model).checkOne, 3}, // is not found
			{(*model).toggleMember, 0},
			{(*model).checkOne, 3}, // is of before that, and not found
			{(*model).seed, 3},
			{(*model).checkOne, 3},
		}, 2},
		// What the filter believes by Redis alone was written when there was one of each.
		"two members come to share something while the filter is out of reach": {[]event{
			{(*model).checkOne, sharedToken},
			{(*model).checkOne, sharedOther},
			{(*model).toggleControl, 0},
			{(*model).toggleShared, 0},
			{(*model).pass, 3},
			{(*model).checkOne, sharedToken}, // is not found
			{(*model).checkOne, sharedOther},
			{(*model).seed, sharedToken},
			{(*model).seed, sharedOther},
			{(*model).checkOne, sharedToken}, // is not found
			{(*model).checkOne, sharedOther},
			{(*model).toggleShared, 0},
			{(*model).seed, sharedToken},
			{(*model).seed, sharedOther},
			{(*model).checkOne, sharedToken},
			{(*model).checkOne, sharedOther},
		}, 4},
		// When the records were written one of the two was no member.
		"two members came to share something while one was away": {[]event{
			{(*model).toggleMember, 0},
			{(*model).toggleShared, 0},
			{(*model).seed, sharedToken},
			{(*model).seed, sharedOther},
			{(*model).toggleMember, 0},
			{(*model).checkOne, sharedToken}, // is not found
			{(*model).checkOne, sharedOther},
			{(*model).toggleShared, 0},
			{(*model).checkOne, sharedToken},
			{(*model).checkOne, sharedOther},
		}, 2},
		// The filter has not heard that the other left, and finds it where it was.
		"a member comes back with what another has, while the filter is out of reach": {[]event{
			{(*model).toggleControl, 0},
			{(*model).toggleMember, 0},
			{(*model).toggleShared, 0},
			{(*model).seed, sharedToken},
			{(*model).seed, sharedOther},
			{(*model).toggleMember, 0},
			{(*model).pass, 3},
			{(*model).checkOne, sharedToken}, // is not found
			{(*model).checkOne, sharedOther},
			{(*model).seed, 0},
			{(*model).checkOne, 0},
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			faults, found := run(t, newWorld(), o.order)
			for _, fault := range faults {
				t.Error(fault)
			}
			if found != o.found {
				t.Errorf("answered %d times, want %d", found, o.found)
			}
		})
	}
}
