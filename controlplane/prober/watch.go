package prober

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/probing"
)

// early is how long something that is about to be known is waited for.
const early = 50 * time.Millisecond

// watch checks a workload until ctx ends.
func (p *Prober) watch(ctx context.Context, w *watch) {
	var succeeded, failed uint32
	for {
		err := p.check(ctx, w.probe)
		if ctx.Err() != nil {
			return
		}
		pause := w.probe.Interval
		switch {
		case errors.Is(err, ErrEarly):
			pause = min(pause, early)
		case err == nil:
			succeeded, failed = min(succeeded+1, w.probe.Healthy), 0
		case p.unable(err):
			p.sayUnable(w, err)
		default:
			succeeded, failed = 0, min(failed+1, w.probe.Unhealthy)
		}
		switch {
		case succeeded > 0 && succeeded >= w.probe.Healthy:
			p.find(w, present, nil)
		case failed > 0 && failed >= w.probe.Unhealthy:
			p.find(w, absent, err)
		}
		if alarm.Rest(ctx, pause) != nil {
			return
		}
	}
}

// check connects to a workload once. The addresses of this machine may change, so each check asks
// whether it may.
func (p *Prober) check(ctx context.Context, probe probing.Probe) error {
	if err := p.o.May(probe.At); err != nil {
		return err
	}
	if err := p.o.Lacks(probe.Listener); err != nil {
		return fmt.Errorf("the proxy has no listener for it: %w", err)
	}
	if probe.From.IsValid() && !probe.From.IsLoopback() {
		return fmt.Errorf("it is to be called from %s, which is not loopback", probe.From)
	}
	ctx, cancel := context.WithTimeout(ctx, probe.Timeout)
	defer cancel()
	conn, err := p.o.Dial(ctx, probe.From, probe.At)
	if err != nil {
		return err
	}
	_ = conn.Close() // it was there, however the connection ends
	return nil
}

// lacking are the errors of a machine that has no room for one more connection, whoever listens.
var lacking = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE}

// unable reports whether a check has failed because of the agent's machine alone, and so says nothing
// of the workload. An address to call from that the machine does not have is different: the proxy
// cannot call from there either.
func (p *Prober) unable(err error) bool {
	if failed, ok := errors.AsType[*os.SyscallError](err); ok && failed.Syscall == "bind" && errors.Is(err, syscall.EADDRNOTAVAIL) {
		return false
	}
	return errors.Is(err, ErrUnable) || slices.ContainsFunc(lacking, func(l error) bool { return errors.Is(err, l) })
}

// sayAgain is how often the log hears that workloads cannot be checked.
const sayAgain = time.Minute

func (p *Prober) sayUnable(w *watch, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.said.IsZero() || now.Sub(p.said) >= sayAgain {
		p.said = now
		p.o.Log.Warn("workloads cannot be probed now, and count as what they were", "port", w.probe.Port, "workload", w.probe.At.String(), "error", cause)
	}
}

var errItself = errors.New("nobody listens there")

func dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{}
	d.SetMultipathTCP(false)
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	conn, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	// A connection to a free port of this machine may get that port as its own, and then meets itself.
	if conn.LocalAddr().String() == conn.RemoteAddr().String() {
		_ = conn.Close()
		return nil, errItself
	}
	return conn, nil
}
