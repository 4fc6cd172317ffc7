package tokencache

import "testing"

// Orders that random ones have found, or meet too seldom. Each ends with an answer of the look-up that it
// is about, so that none passes because nobody was answered.
func TestOrders(t *testing.T) {
	newWorld := modelWorlds(t)
	for name, o := range map[string]struct {
		order []event
		found map[int]int // how often, by token
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
		}, map[int]int{0: 2}},
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
		}, map[int]int{3: 2}},
		// What the filter believes by Redis alone of the second one was written when there was
		// one of each. What the first one has stays as it is.
		"two members come to share something while the filter is out of reach": {[]event{
			{(*model).checkOne, sharedToken},
			{(*model).checkOne, sharedOther},
			{(*model).toggleControl, 0},
			{(*model).toggleShared, 1}, // the other control plane takes it
			{(*model).pass, 3},
			{(*model).checkOne, sharedToken},
			{(*model).checkOne, sharedOther}, // is not found
			{(*model).seed, sharedToken},
			{(*model).seed, sharedOther},
			{(*model).checkOne, sharedToken},
			{(*model).checkOne, sharedOther}, // is not found
			{(*model).toggleShared, 0},       // the first one gives it away
			{(*model).seed, sharedToken},
			{(*model).checkOne, sharedToken},
			{(*model).checkOne, sharedOther}, // is not found: only the control plane knows
			{(*model).seed, sharedOther},
			{(*model).checkOne, sharedOther},
			{(*model).toggleShared, 0}, // and is the second one when it takes it again
			{(*model).seed, sharedToken},
			{(*model).checkOne, sharedToken}, // is not found
			{(*model).checkOne, sharedOther},
		}, map[int]int{sharedToken: 4, sharedOther: 3}},
		// When the records were written one of the two was no member.
		"two members came to share something while one was away": {[]event{
			{(*model).toggleMember, 0},
			{(*model).toggleShared, 1},
			{(*model).seed, sharedToken},
			{(*model).seed, sharedOther},
			{(*model).toggleMember, 0},
			{(*model).checkOne, sharedToken},
			{(*model).checkOne, sharedOther}, // is not found
			{(*model).toggleShared, 1},
			{(*model).checkOne, sharedToken},
			{(*model).checkOne, sharedOther},
		}, map[int]int{sharedToken: 3, sharedOther: 1}},
		// The filter has not heard that the other left, and finds it where it was.
		"a member comes back with what another has, while the filter is out of reach": {[]event{
			{(*model).toggleControl, 0},
			{(*model).toggleMember, 0},
			{(*model).toggleShared, 1},
			{(*model).seed, sharedToken},
			{(*model).seed, sharedOther},
			{(*model).toggleMember, 0},
			{(*model).pass, 3},
			{(*model).checkOne, sharedToken}, // is of before that, and not found
			{(*model).checkOne, sharedOther},
			{(*model).seed, sharedToken},
			{(*model).seed, sharedOther},
			{(*model).checkOne, sharedToken},
			{(*model).checkOne, sharedOther}, // is not found
		}, map[int]int{sharedToken: 1}},
		// Of one value the first one's record is found, and that of the second one not, whether
		// Redis holds the first one's or not.
		"two members hold one value while the filter is out of reach": {[]event{
			{(*model).checkOne, sharedValue},
			{(*model).seed, valueOther},
			{(*model).toggleControl, 0},
			{(*model).pass, 3},
			{(*model).checkOne, valueOther}, // finds the first one's
			{(*model).revokeToken, sharedValue},
			{(*model).checkOne, sharedValue}, // is not found
			{(*model).seed, valueOther},
			{(*model).checkOne, sharedValue}, // finds the other one's
			{(*model).issue, sharedValue},    // is the second one from now on
			{(*model).checkOne, sharedValue}, // finds the other one's
			{(*model).revokeToken, valueOther},
			{(*model).checkOne, sharedValue}, // is not found
			{(*model).seed, sharedValue},
			{(*model).checkOne, sharedValue},
		}, map[int]int{sharedValue: 3, valueOther: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			faults, found := run(t, newWorld(), o.order)
			for _, fault := range faults {
				t.Error(fault)
			}
			for i, n := range found {
				if n != o.found[i] {
					t.Errorf("token %d was found %d times, want %d", i, n, o.found[i])
				}
			}
		})
	}
}
