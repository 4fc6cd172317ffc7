package relay_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

const s = time.Second

var (
	clusterA = xdstest.Cluster("a", s)
	endA     = xdstest.Endpoints("a", 1001)
	listener = xdstest.Listener("in", 1000, "r")
	routesA  = xdstest.Routes("r", "a", 0)
	routesB  = xdstest.Routes("r", "b", 0)
)

func TestConfirmsOnlyWhatEnvoyConfirmed(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	rev := p.publish(clusterA, endA, listener, routesA)
	r, stop := startRelay(t, dir, p.addr)
	<-r.Ready()
	if got := p.snaps.Progress(rev); len(got.Acknowledged) != 0 {
		t.Fatalf("confirmed without an Envoy: %+v", got)
	}
	c := local(t, dir, xdstest.Options{})
	c.Request(resource.Route).Equals(t, routesA)
	if got := p.settle(t, rev); len(got.Acknowledged) != 1 {
		t.Fatalf("progress %+v", got)
	}
	if !r.Status().Connected || !r.Status().Ready {
		t.Fatalf("status %+v", r.Status())
	}
	for path, mode := range map[string]os.FileMode{"run": 0o700, "run/xds.sock": 0o600} {
		if fi, err := os.Stat(filepath.Join(dir, path)); err != nil || fi.Mode().Perm() != mode {
			t.Fatalf("%s: %v, %v", path, fi, err)
		}
	}
	c.Close()
	stop()
	fi, err := os.Stat(filepath.Join(dir, "cache"))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Fatalf("cache %v, %v", fi, err)
	}
}

func TestServesFromDiskWithoutControlPlane(t *testing.T) {
	p, dir := startPlane(t, address(t)), t.TempDir()
	rev := p.publish(clusterA, endA, listener, routesA)
	_, stop := startRelay(t, dir, p.addr)
	c := local(t, dir, xdstest.Options{})
	c.Request(resource.Route).Equals(t, routesA)
	p.settle(t, rev)
	p.kill()
	second := local(t, dir, xdstest.Options{})
	second.Request(resource.Route).Equals(t, routesA)
	c.Close()
	second.Close()
	stop()

	startRelay(t, dir, p.addr) // a new process without a control plane
	third := local(t, dir, xdstest.Options{})
	third.Request(resource.Route).Equals(t, routesA)
	third.Request(resource.Endpoint).Equals(t, endA)

	back := startPlane(t, p.addr)
	rev = back.publish(clusterA, endA, listener, routesB)
	third.Request(resource.Route).Equals(t, routesB)
	back.settle(t, rev)
}

func TestRefusalGoesUpstreamAndLastGoodReturns(t *testing.T) {
	p, dir := startPlane(t, address(t)), t.TempDir()
	rev := p.publish(clusterA, endA, listener, routesA)
	_, stop := startRelay(t, dir, p.addr)
	routes := 0
	c := local(t, dir, xdstest.Options{Reject: func(u resource.TypeURL, _ []string) string {
		if u == resource.Route {
			if routes++; routes == 2 {
				return "unknown cluster"
			}
		}
		return ""
	}})
	c.Request(resource.Route).Equals(t, routesA)
	p.settle(t, rev)
	got := p.settle(t, p.publish(clusterA, endA, listener, routesB))
	if len(got.Rejected) != 1 || got.Rejected[0].Error != "r: unknown cluster" {
		t.Fatalf("progress %+v", got)
	}
	p.kill()
	c.Close()
	stop()
	startRelay(t, dir, p.addr)
	local(t, dir, xdstest.Options{}).Request(resource.Route).Equals(t, routesA)
}

func TestDamagedOrForeignCacheIsIgnored(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cache"), []byte("meshgate-xds-cache-1\nnonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.publish(clusterA, endA, listener, routesA)
	startRelay(t, dir, p.addr)
	local(t, dir, xdstest.Options{}).Request(resource.Route).Equals(t, routesA)
}

// A control plane that accepts connections and never answers changes nothing. The cached
// content is served, and the relay does not report that it is connected.
func TestBlackHoleKeepsWhatIsThere(t *testing.T) {
	p, dir := startPlane(t, address(t)), t.TempDir()
	rev := p.publish(clusterA, endA, listener, routesA)
	_, stop := startRelay(t, dir, p.addr)
	c := local(t, dir, xdstest.Options{})
	c.Request(resource.Route).Equals(t, routesA)
	p.settle(t, rev)
	c.Close()
	stop()
	p.kill()

	var lc net.ListenConfig
	hole, err := lc.Listen(t.Context(), "tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		var held []net.Conn
		for {
			conn, err := hole.Accept()
			if err != nil {
				break
			}
			if held = append(held, conn); len(held) == 1 {
				close(accepted)
			}
		}
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	r, stop := startRelay(t, dir, p.addr)
	within(t, "the relay connects", accepted)
	c = local(t, dir, xdstest.Options{})
	c.Request(resource.Cluster).Equals(t, clusterA)
	c.Request(resource.Endpoint).Equals(t, endA)
	c.Request(resource.Route).Equals(t, routesA)
	if st := r.Status(); st.Connected || !st.Ready {
		t.Errorf("status %+v", st)
	}
	stop()
	_ = hole.Close()
	<-done
}
