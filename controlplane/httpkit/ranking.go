package httpkit

import (
	"container/list"
	"net/netip"
)

// ranking knows which address has most of something. That address gives way when there is no
// more room. The cost of a change does not depend on the number of addresses: an address
// moves up or down by one level.
type ranking struct {
	at     map[netip.Prefix]*rank
	levels map[int]*list.List // of *rank with this number, the longest there first
	most   int
}

// rank is the number of one address.
type rank struct {
	address netip.Prefix
	n       int
	place   *list.Element
}

func newRanking() *ranking {
	return &ranking{at: map[netip.Prefix]*rank{}, levels: map[int]*list.List{}}
}

// more adds one to the number of an address.
func (r *ranking) more(address netip.Prefix) {
	k := r.at[address]
	if k == nil {
		k = &rank{address: address}
		r.at[address] = k
	}
	r.move(k, k.n+1)
	r.most = max(r.most, k.n)
}

// less subtracts one from the number of an address, which must not be 0.
func (r *ranking) less(address netip.Prefix) {
	k := r.at[address]
	r.move(k, k.n-1)
	if r.levels[r.most] == nil {
		r.most = k.n
	}
	if k.n == 0 {
		delete(r.at, address)
	}
}

func (r *ranking) move(k *rank, n int) {
	if l := r.levels[k.n]; k.place != nil {
		l.Remove(k.place)
		if k.place = nil; l.Len() == 0 {
			delete(r.levels, k.n)
		}
	}
	if k.n = n; n == 0 {
		return
	}
	l := r.levels[n]
	if l == nil {
		l = list.New()
		r.levels[n] = l
	}
	k.place = l.PushBack(k)
}

// first returns the address with the highest number. Among equals it is the one that reached
// the number first. There must be an address.
func (r *ranking) first() netip.Prefix {
	return r.levels[r.most].Front().Value.(*rank).address
}
