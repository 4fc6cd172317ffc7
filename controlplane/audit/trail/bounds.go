package trail

import (
	"net/netip"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// The bounds of refusals. Anybody can cause any number of them, and must push out no changes: at the rates
// of rateTotal and of the sums, seven days make 312,480 events, less than a third of [cloud.MaxEvents].
const (
	// burstEach calls of one address are told one by one at once, and then one in rateEach; those of all
	// addresses burstTotal at once, and then one in rateTotal.
	burstEach, burstTotal = 20, 400
	rateEach, rateTotal   = 15 * time.Second, 3 * time.Second
	// maxAddresses bounds the addresses that are counted.
	maxAddresses = 4096
	// summing is how often the others are summed up: each time by one event for each of maxSums addresses
	// and statuses, and by one for each status of all other addresses.
	summing = time.Minute
	maxSums = 8
)

// bucket lets a number of calls through at once, and then one in a time.
type bucket struct {
	burst int
	rate  time.Duration
	// free is when the bucket is full again, if nothing comes.
	free time.Time
}

func (b *bucket) has(now time.Time) bool {
	return b.free.Sub(now) <= time.Duration(b.burst-1)*b.rate
}

func (b *bucket) take(now time.Time) {
	if b.free.Before(now) {
		b.free = now
	}
	b.free = b.free.Add(b.rate)
}

// summed are the calls that an event sums up. Those of all addresses that have no sum of their own have
// no prefix.
type summed struct {
	from   netip.Prefix
	status int
}

// bounds say which calls are told one by one.
type bounds struct {
	all  bucket
	each map[netip.Prefix]*bucket
	sums map[summed]*audit.Event
}

func newBounds() *bounds {
	return &bounds{all: bucket{burst: burstTotal, rate: rateTotal}, each: map[netip.Prefix]*bucket{}, sums: map[summed]*audit.Event{}}
}

// admit reports whether a call is told by itself.
func (b *bounds) admit(from netip.Addr, now time.Time) bool {
	at := httpkit.Prefix(from)
	of := b.each[at]
	if of == nil {
		if len(b.each) >= maxAddresses {
			b.sweep(now)
		}
		if len(b.each) >= maxAddresses {
			return false
		}
		of = &bucket{burst: burstEach, rate: rateEach}
		b.each[at] = of
	}
	if !of.has(now) || !b.all.has(now) {
		return false
	}
	of.take(now)
	b.all.take(now)
	return true
}

// sweep forgets addresses of which nothing is counted any more.
func (b *bounds) sweep(now time.Time) {
	for at, of := range b.each {
		if !of.free.After(now) {
			delete(b.each, at)
		}
	}
}

// sum counts a call that is not told by itself.
func (b *bounds) sum(e *audit.Event) {
	key := summed{httpkit.Prefix(e.Source), e.Administration.Status}
	source := e.Source
	if b.sums[key] == nil && len(b.sums) >= maxSums {
		key.from, source = netip.Prefix{}, netip.Addr{}
	}
	of := b.sums[key]
	if of == nil {
		of = &audit.Event{
			Portal: cloud.ControlPlaneLog, Source: source,
			Administration: &audit.Administration{Class: audit.Refusal, Status: key.status, Reason: reasonSummed},
		}
		b.sums[key] = of
	}
	of.Time = e.Time
	of.Administration.Count++
}

// reasonSummed is the reason of an event that sums up calls which were too many to be told one by one.
const reasonSummed = "too_many"

// reasonIssuer is the reason of a refusal because the issuer of the token could not be reached.
const reasonIssuer = "issuer_unreachable"

// close returns the sums and begins anew.
func (b *bounds) close() (list []audit.Event) {
	for key, e := range b.sums {
		list = append(list, *e)
		delete(b.sums, key)
	}
	return list
}

// forget drops the sums.
func (b *bounds) forget() { clear(b.sums) }
