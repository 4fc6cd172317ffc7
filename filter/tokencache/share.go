package tokencache

// share bounds the requests that wait, so that none of those who ask takes what
// is left for the others. An address may hold a third of what is free, and so at
// most a quarter of all; a connection may hold as much as it leaves to the others
// of its address. So a few strangers leave room for somebody new: to fill it takes
// thirty addresses.
type share struct {
	total     int
	byAddress map[uint64]*held
}

// held is what one address holds.
type held struct {
	total        int
	byConnection map[uint64]int
}

// take counts one more, or refuses.
func (s *share) take(from Source) bool {
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

// give takes one back.
func (s *share) give(from Source) {
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
