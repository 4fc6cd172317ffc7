package prober

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/xds/probing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manner is how a workload answers connections.
type manner int

const (
	accepts manner = iota
	refuses
	hangs
)

// world is a machine with workloads, and a control plane that hears reports.
type world struct {
	*Prober
	mu      sync.Mutex
	manners map[netip.AddrPort]manner
	dialled map[netip.AddrPort]int
	from    map[netip.AddrPort]netip.Addr
	reports [][]probing.Finding
	at      []time.Duration // when the reports came
	fails   error
	dialing error            // of every connection
	lacks   map[string]error // by listener
	logged  atomic.Int64     // warnings that nothing can be checked
	began   time.Time
	end     func()
}

// newWorld starts a prober in a bubble of time.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{manners: map[netip.AddrPort]manner{}, dialled: map[netip.AddrPort]int{}, from: map[netip.AddrPort]netip.Addr{}}
	w.Prober = New(Options{
		May: func(at netip.AddrPort) error {
			if !at.Addr().IsLoopback() {
				return errors.New("it is not here")
			}
			return nil
		},
		Lacks: w.lacksListener, Dial: w.dial, Report: w.report, Log: slog.New(counting{&w.logged}),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	w.end = func() { cancel(); running.Wait() }
	time.Sleep(time.Second) // virtual, as all in this file; it waits for something to do now
	w.began = time.Now()
	return w
}

func (w *world) dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	how, err := w.manners[to], w.dialing
	w.dialled[to]++
	w.from[to] = from
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	switch how {
	case refuses:
		return nil, errors.New("refused")
	case hangs:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	here, there := net.Pipe()
	_ = there.Close()
	return here, nil
}

func (w *world) report(_ context.Context, found []probing.Finding) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports, w.at = append(w.reports, found), append(w.at, time.Since(w.began))
	return w.fails
}

func (w *world) lacksListener(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lacks[name]
}

// counting counts the lines that say that nothing can be checked.
type counting struct{ n *atomic.Int64 }

func (c counting) Enabled(context.Context, slog.Level) bool { return true }
func (c counting) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c counting) WithGroup(string) slog.Handler            { return c }
func (c counting) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "cannot be probed now") {
		c.n.Add(1)
	}
	return nil
}

func (w *world) behaves(to netip.AddrPort, how manner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.manners[to] = how
}

func (w *world) failing(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = err
}

// heard returns the reports since the last call, and when they came.
func (w *world) heard() (reports [][]probing.Finding, at []time.Duration) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	reports, at = w.reports, w.at
	w.reports, w.at = nil, nil
	return reports, at
}

func (w *world) dials(to netip.AddrPort) int {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dialled[to]
}

// expect requires reports since the last call, each of one port.
func (w *world) expect(t *testing.T, what string, want ...probing.Finding) {
	t.Helper()
	var got []probing.Finding
	reports, _ := w.heard()
	for _, r := range reports {
		got = append(got, r...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

var web, db = netip.MustParseAddrPort("127.0.0.1:9080"), netip.MustParseAddrPort("127.0.0.1:5432")

func probeOf(port uint16, at netip.AddrPort, ready bool) probing.Probe {
	return probing.Probe{Inbound: probing.Inbound{Port: port}, At: at, Interval: time.Second, Timeout: 2 * time.Second, Unhealthy: 3, Healthy: 2, Ready: ready}
}

func is(port uint16, ready bool) probing.Finding {
	return probing.Finding{Inbound: probing.Inbound{Port: port}, Ready: ready}
}

// TestThresholds: a transition is reported with the check that reaches the threshold, not before,
// and an interruption begins anew.
func TestThresholds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.Set([]probing.Probe{probeOf(80, web, false)})
		time.Sleep(500 * time.Millisecond) // checks come at whole seconds
		w.expect(t, "one success of two")
		time.Sleep(time.Second)
		w.expect(t, "two successes", is(80, true))
		w.Set([]probing.Probe{probeOf(80, web, true)})
		w.behaves(web, refuses)
		time.Sleep(2 * time.Second)
		w.expect(t, "two failures of three")
		w.behaves(web, accepts)
		time.Sleep(time.Second)
		w.behaves(web, refuses)
		time.Sleep(2 * time.Second)
		w.expect(t, "two failures after a success")
		time.Sleep(time.Second)
		w.expect(t, "three failures", is(80, false))
		w.Set([]probing.Probe{probeOf(80, web, false)})
		w.behaves(web, accepts)
		time.Sleep(time.Second)
		w.expect(t, "back once")
		time.Sleep(time.Second)
		w.expect(t, "back twice", is(80, true))
	})
}

// TestHangs: a workload that does not answer is absent when the time of each check is over, and the
// next check comes an interval later.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.behaves(web, hangs)
		w.Set([]probing.Probe{probeOf(80, web, true)})
		time.Sleep(2*3*time.Second + 2*time.Second - time.Millisecond)
		w.expect(t, "before the third timeout")
		time.Sleep(time.Millisecond + gather)
		w.expect(t, "at the third timeout", is(80, false))
		if n := w.dials(web); n != 3 {
			t.Error(n)
		}
	})
}

// TestAgreement: nothing is reported of what the control plane holds already. When it comes to hold
// something else, it is told at once.
func TestAgreement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.behaves(db, refuses)
		w.Set([]probing.Probe{probeOf(80, web, true), probeOf(81, db, false)})
		time.Sleep(time.Hour)
		w.expect(t, "both are as they are held")
		before := w.dials(web)
		w.Set([]probing.Probe{probeOf(80, web, false), probeOf(81, db, true)})
		time.Sleep(gather)
		w.expect(t, "somebody has written something else", is(80, true), is(81, false))
		if n := w.dials(web); n != before {
			t.Error("the probes began anew")
		}
	})
}

// TestReportsUntilHeld: a report is repeated until the configuration says what it said. One that was
// not taken is sent again soon, with longer and longer pauses.
func TestReportsUntilHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.failing(errors.New("the control plane is away"))
		probe := probeOf(80, web, false)
		probe.Healthy = 1
		w.Set([]probing.Probe{probe})
		time.Sleep(time.Minute)
		_, at := w.heard()
		want := []time.Duration{0, 200, 600, 1400, 3000, 6200, 12600, 22600, 32600, 42600, 52600}
		for i := range want {
			want[i] = want[i]*time.Millisecond + gather
		}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Error(diff)
		}
		w.failing(nil)
		time.Sleep(3 * time.Second)
		w.expect(t, "it is there again", is(80, true))
		time.Sleep(resend - 3*time.Second)
		w.expect(t, "the configuration may still come")
		time.Sleep(3 * time.Second)
		w.expect(t, "nothing came", is(80, true))
		probe.Ready = true
		w.Set([]probing.Probe{probe})
		time.Sleep(time.Hour)
		w.expect(t, "it is held")
	})
}

// TestFlapping: a workload that comes and goes all the time is reported once a second.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		probe := probeOf(80, web, false)
		probe.Interval, probe.Healthy, probe.Unhealthy = 10*time.Millisecond, 1, 1
		w.Set([]probing.Probe{probe})
		for i := range 1000 {
			w.behaves(web, manner(i%2))
			time.Sleep(10 * time.Millisecond)
		}
		if reports, _ := w.heard(); len(reports) > 11 || len(reports) < 5 {
			t.Error(len(reports))
		}
	})
}

// TestConfigurationChanges: while it probes, probes come and go, and go elsewhere.
func TestConfigurationChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.behaves(web, hangs)
		w.Set([]probing.Probe{probeOf(80, web, true)})
		time.Sleep(time.Second) // in the middle of a check
		w.Set([]probing.Probe{probeOf(80, db, false), probeOf(81, db, false)})
		time.Sleep(time.Second + gather)
		w.expect(t, "both are at another workload", is(80, true), is(81, true))
		if n := w.dials(web); n != 1 {
			t.Error("the old workload is probed", n)
		}
		w.Set(nil)
		before := w.dials(db)
		time.Sleep(time.Hour)
		w.expect(t, "nothing is probed")
		if n := w.dials(db); n != before {
			t.Error("it is probed", n)
		}
	})
}

// TestEnd: nothing runs or reports once the prober has ended, also in the middle of checks.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.behaves(web, hangs)
		w.Set([]probing.Probe{probeOf(80, web, true), probeOf(81, db, false)})
		synctest.Wait()
		w.end()
		n := w.dials(db)
		time.Sleep(time.Hour)
		w.expect(t, "it has ended")
		if w.dials(db) != n {
			t.Error("it probes")
		}
	})
}

// TestOnlyWhatMayBe: the agent connects to nothing that its machine does not permit, and from nowhere
// but loopback. Such a workload is absent.
func TestOnlyWhatMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		far := netip.MustParseAddrPort("192.0.2.1:80")
		strange, own := probeOf(81, db, true), probeOf(82, web, false)
		strange.From, own.From = netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("127.0.0.6")
		own.Healthy = 1
		w.Set([]probing.Probe{probeOf(80, far, true), strange, own})
		time.Sleep(2500 * time.Millisecond)
		w.expect(t, "", is(82, true), is(80, false), is(81, false))
		if reports, _ := w.heard(); len(reports) != 0 {
			t.Error(reports)
		}
		if w.dials(far)+w.dials(db) != 0 || w.from[web] != own.From {
			t.Error(w.dialled, w.from)
		}
	})
}

// TestUnable: what the agent's machine lacks says nothing of a workload, and is told now and then. A
// failure of before still counts when checks are possible again.
func TestUnable(t *testing.T) {
	failed := func(call string, err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(call, err)}
	}
	for name, tt := range map[string]struct {
		err    error
		unable bool
	}{
		"files of the process":  {failed("socket", syscall.EMFILE), true},
		"files of the machine":  {failed("socket", syscall.ENFILE), true},
		"buffers":               {failed("connect", syscall.ENOBUFS), true},
		"memory":                {failed("socket", syscall.ENOMEM), true},
		"ports":                 {failed("connect", syscall.EADDRNOTAVAIL), true},
		"ports of an address":   {failed("bind", syscall.EADDRINUSE), true},
		"what it may":           {fmt.Errorf("%w: no", ErrUnable), true},
		"an address of its own": {failed("bind", syscall.EADDRNOTAVAIL), false},
		"nobody":                {failed("connect", syscall.ECONNREFUSED), false},
		"a way":                 {failed("connect", syscall.ENETUNREACH), false},
		"time":                  {context.DeadlineExceeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.end()
				w.behaves(web, refuses)
				w.Set([]probing.Probe{probeOf(80, web, true), probeOf(81, web, true)})
				time.Sleep(1500 * time.Millisecond) // two failures of three
				w.dials(web)
				w.mu.Lock()
				w.dialing = tt.err
				w.mu.Unlock()
				time.Sleep(time.Second)
				if !tt.unable {
					w.expect(t, "it is not there", is(80, false), is(81, false))
					return
				}
				time.Sleep(sayAgain)
				w.expect(t, "nothing is known")
				if n := w.logged.Load(); n != 2 {
					t.Error("logged", n)
				}
				w.mu.Lock()
				w.dialing = nil
				w.mu.Unlock()
				time.Sleep(time.Second)
				w.expect(t, "the third failure", is(80, false), is(81, false))
			})
		})
	}
}

// TestNoListener: nobody reaches a workload whose listener the proxy lacks, so it counts as not
// there, and nobody connects to it. As long as the proxy has not said, nothing is known; then the
// workload is checked soon, however long its interval is.
func TestNoListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		probe := probeOf(80, web, true)
		probe.Listener, probe.Interval, probe.Healthy, probe.Unhealthy = "inbound:10.0.0.1:80", time.Hour, 1, 1
		says := func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.lacks = map[string]error{probe.Listener: err}
		}
		says(fmt.Errorf("%w: nobody has answered", ErrEarly))
		other := probeOf(81, db, true)
		w.Set([]probing.Probe{probe, other})
		time.Sleep(time.Minute)
		w.expect(t, "nothing is known")
		says(errors.New("the port is in use"))
		time.Sleep(early + gather)
		w.expect(t, "it is refused", is(80, false))
		if n := w.dials(web); n != 0 {
			t.Error(n)
		}
		says(nil)
		probe.Ready = false
		w.Set([]probing.Probe{probe, other})
		time.Sleep(time.Hour)
		w.expect(t, "it is there", is(80, true))
	})
}

// TestClockIsSet: setting the clock of the host changes no pause. The time that counts is not that of
// the host's clock here, which is an hour ahead of it.
func TestClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		looked := 0
		synctest.Wait()            // whoever asks for the time has asked before it is another one
		w.now = func() time.Time { // called by one goroutine
			if looked++; looked > 1000 {
				panic("it looks again and again")
			}
			return time.Now().Add(-time.Hour)
		}
		probe := probeOf(80, web, false)
		probe.Healthy = 1
		w.Set([]probing.Probe{probe})
		time.Sleep(time.Minute)
		w.expect(t, "every time that it is not held", is(80, true), is(80, true), is(80, true), is(80, true))
	})
}

// TestBounded: no more run than an agent is told at most.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		var many []probing.Probe
		for i := range 2 * probing.Max {
			many = append(many, probeOf(uint16(i+1), web, true))
		}
		w.Set(many)
		if n := w.dials(web); n != probing.Max {
			t.Error(n)
		}
	})
}

// TestTCP: what listens is there, also to a connection from another address, and what does not is
// not, whichever port the system chooses for the connection.
func TestTCP(t *testing.T) {
	free, err := ports.Free(1) // nobody else is given it once nobody listens
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", free[0]))
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(lis.Addr().String())
	for _, from := range []netip.Addr{{}, netip.MustParseAddr("127.0.0.6")} {
		conn, err := dial(t.Context(), from, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := netip.MustParseAddrPort(conn.LocalAddr().String()).Addr(); from.IsValid() && got != from {
			t.Error(got)
		}
		_ = conn.Close()
	}
	_ = lis.Close()
	if conn, err := dial(t.Context(), netip.Addr{}, at); err == nil {
		_ = conn.Close()
		t.Error("nobody listens")
	}
}
