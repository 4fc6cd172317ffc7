package publish

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/resource"
)

// stumbling is a planner that panics when it makes the set of a proxy with a port, for as many times as
// are left. It notes when the sets were made or tried.
type stumbling struct {
	zonePlanner
	begin time.Time

	mu   sync.Mutex
	left map[uint32]int
	made map[uint32][]time.Duration
}

func (s *stumbling) Set(address string, port uint32) (*resource.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[port] = append(s.made[port], time.Since(s.begin))
	if s.left[port] > 0 {
		s.left[port]--
		panic("a mistake of " + time.Since(s.begin).String()) // each with another text
	}
	return s.zonePlanner.Set(address, port)
}

// stumbles sets how many times the sets of some ports panic from now on.
func (s *stumbling) stumbles(left map[uint32]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.made = left, map[uint32][]time.Duration{}
}

// tries returns when the set of a port was made or tried.
func (s *stumbling) tries(port uint32) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.made[port])
}

const forever = 1 << 30

// clumsy is a zone, in a bubble of virtual time, whose ingresses a, b and c are connected and planned by a
// planner that stumbles.
type clumsy struct {
	*halfway
	planner *stumbling
	log     bytes.Buffer
	leave   map[string]func()
}

func stumble(t *testing.T, fn func(c *clumsy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &clumsy{halfway: startHalfway(t), leave: map[string]func(){}}
		for _, name := range []string{"a", "b", "c"} {
			c.leave[name] = c.connect("zone/ingress/" + name)
		}
		p := c.loop.openedZone()
		p.mu.Lock()
		c.planner = &stumbling{zonePlanner: p.planners[mesh.ProxyIngress], begin: time.Now(), made: map[uint32][]time.Duration{}}
		p.planners[mesh.ProxyIngress], p.log = c.planner, slog.New(slog.NewTextHandler(&c.log, nil))
		p.mu.Unlock()
		fn(c)
	})
}

// has demands which proxies have a service. Those that lack it are to be named as failures.
func (c *clumsy) has(what, service string, names ...string) {
	c.Helper()
	var lack []string
	for _, name := range []string{"a", "b", "c"} {
		there := c.snaps.Get("zone/ingress/"+name).Get(resource.Cluster, "one:"+service) != nil
		if there != slices.Contains(names, name) {
			c.Errorf("%s: ingress %s has %s: %t", what, name, service, there)
		}
		if !there {
			lack = append(lack, ZoneProxy(mesh.ProxyIngress, name))
		}
	}
	var named []string
	for _, f := range c.loop.Failures() {
		named = append(named, f.Dataplane)
	}
	if !slices.Equal(named, lack) {
		c.Errorf("%s: named as failures are %v, and %v lack %s", what, named, lack, service)
	}
}

// logged demands how often the log names a proxy.
func (c *clumsy) logged(name string, want int) {
	c.Helper()
	p := c.loop.openedZone()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := strings.Count(c.log.String(), "node=zone/ingress/"+name); n != want {
		c.Errorf("the log names %s %d times, not %d: %s", name, n, want, &c.log)
	}
}

// TestPanickingSetsOfTheZoneAreTriedAgain: several proxies of which making the set panics once each get what
// is new soon after, without another change. The others have it at once, and are not planned again.
func TestPanickingSetsOfTheZoneAreTriedAgain(t *testing.T) {
	stumble(t, func(c *clumsy) {
		c.planner.stumbles(map[uint32]int{1: 1, 2: 1})
		c.serves("web")
		c.has("at once", "web", "c")
		time.Sleep(firstPause + maxWindow)
		synctest.Wait()
		c.has("after a pause", "web", "a", "b", "c")
		c.logged("a", 1)
		c.logged("b", 1)
		c.logged("c", 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		if a, b, others := c.planner.tries(1), c.planner.tries(2), c.planner.tries(3); len(a) != 2 || len(b) != 2 || len(others) != 1 {
			t.Errorf("the sets are made at %v and %v, those of others at %v", a, b, others)
		}
	})
}

// TestSetThatPanicsAtEveryPlan: attempts for such a proxy become rarer, and a change shortens the pause. The
// others go on, and the log says it once. When its set can be made it gets everything without another
// change. When it leaves, nothing is tried any more.
func TestSetThatPanicsAtEveryPlan(t *testing.T) {
	stumble(t, func(c *clumsy) {
		c.planner.stumbles(map[uint32]int{1: forever})
		c.serves("web")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		c.has("while it panics", "web", "b", "c")
		tries := c.planner.tries(1)
		var pauses, want []time.Duration
		for i := 1; i < len(tries); i++ {
			pauses = append(pauses, tries[i]-tries[i-1])
		}
		for pause := firstPause; len(want) < len(pauses); pause = min(2*pause, lastPause) {
			want = append(want, pause)
		}
		if d := cmp.Diff(want, pauses); d != "" || len(pauses) < 10 {
			t.Errorf("pauses (-want +got):\n%s", d)
		}
		c.serves("more")
		time.Sleep(2*firstPause + maxWindow)
		synctest.Wait()
		c.has("the next change", "more", "b", "c")
		if n := len(c.planner.tries(1)) - len(tries); n != 2 {
			t.Errorf("%d attempts right after a change", n)
		}
		if n := len(c.planner.tries(2)); n != 2 {
			t.Errorf("the set of another proxy is made %d times for 2 changes", n)
		}
		c.logged("a", 1)
		c.planner.stumbles(nil)
		time.Sleep(lastPause)
		synctest.Wait()
		c.has("when it can be made", "more", "a", "b", "c")
		c.planner.stumbles(map[uint32]int{1: forever})
		c.serves("again")
		c.logged("a", 2)
		c.leave["a"]()
		time.Sleep(lastPause)
		synctest.Wait()
		before := len(c.planner.tries(1))
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(c.planner.tries(1)); n != before {
			t.Errorf("%d attempts for a proxy that has left", n-before)
		}
	})
}

// TestNewSetAfterAPanicIsWaitedFor: an egress that kept its last set has nothing of what came meanwhile until
// it confirms the set of a later attempt. A second stream of it does not bring that set before: what comes
// with a plan alone counts from the first revision that was not shown.
func TestNewSetAfterAPanicIsWaitedFor(t *testing.T) {
	stumble(t, func(c *clumsy) {
		storetest.Put(t, c.db, mesh.ZoneEgresses, "", "out", &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "127.0.0.1", Port: 9}})
		c.connect(leftBy)
		sub := c.snaps.Subscribe(leftBy)
		defer sub.Close()
		l := &left{c.T, c.db, c.loop, c.snaps}
		of := func(roots string) *resource.Set {
			return resource.NewSet([]*resource.Resource{resource.New(resource.Secret, mesh.SecretCA("bank"), []byte(roots))}, nil)
		}
		first := l.next(&keeping{set: of("old")})
		sub.Confirm(sub.State())
		l.shows("at the start", first, true, true, true)
		k := &keeping{set: of("new"), panics: true}
		second := l.next(k)
		l.shows("while its set panics", second, false, false, true)
		p := c.loop.openedZone()
		p.mu.Lock()
		k.panics = false
		p.mu.Unlock()
		before := c.snaps.Get(leftBy)
		c.connect(leftBy) // no time has passed: no attempt was made
		if c.snaps.Get(leftBy) != before {
			t.Error("another stream brings a set that no plan has made")
		}
		time.Sleep(lastPause)
		synctest.Wait()
		if c.snaps.Get(leftBy) == before {
			t.Error("it is not planned again")
		}
		l.shows("before it is confirmed", second, true, true, false)
		sub.Confirm(sub.State())
		l.shows("when it is confirmed", second, true, true, true)
	})
}
