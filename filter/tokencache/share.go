package tokencache

// share bounds the waiting requests, so that no source takes the room of the others. An
// address may hold a third of the free room, and so at most a quarter of all room. A
// connection may hold as much as it leaves to the others of its address. So a few flooding
// addresses leave room for new ones: it takes thirty addresses to fill it.
type share struct {
	total     int
	byAddress map[uint64]*held
}

// held is what one address holds.
type held struct {
	total        int
	byConnection map[uint64]int
}

// take counts one more request, or refuses it.
func (s *share) take(from Asker) bool {
	a := s.byAddress[from.Address]
	ofAddress, ofConnection := 0, 0
	if a != nil {
		ofAddress, ofConnection = a.total, a.byConnection[from.Connection]
	}
	allowed := (maxWaiters - s.total) / 3
	if ofAddress >= allowed || ofConnection >= allowed-ofAddress {
		return false
	}
	if a == nil {
		if s.byAddress == nil {
			s.byAddress = map[uint64]*held{}
		}
		a = &held{byConnection: map[uint64]int{}}
		s.byAddress[from.Address] = a
	}
	s.total++
	a.total++
	a.byConnection[from.Connection]++
	return true
}

// give counts one request less.
func (s *share) give(from Asker) {
	a := s.byAddress[from.Address]
	s.total--
	if a.total--; a.total == 0 {
		delete(s.byAddress, from.Address)
		return
	}
	if a.byConnection[from.Connection]--; a.byConnection[from.Connection] == 0 {
		delete(a.byConnection, from.Connection)
	}
}
