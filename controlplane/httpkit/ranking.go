package httpkit

import (
	"container/list"
	"net/netip"
)

// ranking knows which address has most of something, so that it is the one that gives way
// when there is no more room. However many addresses there are, a change costs the same:
// an address moves up or down by one level.
type ranking struct {
	at     map[netip.Prefix]*rank
	levels map[int]*list.List // of *rank that have so many, the longest there first
	most   int
}

// rank is how many one address has.
type rank struct {
	address netip.Prefix
	n       int
	place   *list.Element
}

func newRanking() *ranking {
	return &ranking{at: map[netip.Prefix]*rank{}, levels: map[int]*list.List{}}
}

// more counts one of an address.
func (r *ranking) more(address netip.Prefix) {
	k := r.at[address]
	if k == nil {
		k = &rank{address: address}
		r.at[address] = k
	}
	r.move(k, k.n+1)
	r.most = max(r.most, k.n)
}

// less takes one of an address off, of which there must be one.
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

// first is the address that has most, of equals the one that has so many for longest.
// There must be one.
func (r *ranking) first() netip.Prefix {
	return r.levels[r.most].Front().Value.(*rank).address
}
