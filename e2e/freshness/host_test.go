package freshness

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// site is what all hosts have in common: the certificates and their directories.
type site struct {
	dir       string
	cert      tls.Certificate
	ca, token string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: memoryDir(t)}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, URIs: []*url.URL{contract.DataPlaneURI()},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), // good in virtual time as well
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	s.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	s.ca, s.token = filepath.Join(s.dir, "ca.pem"), filepath.Join(s.dir, "token")
	for path, data := range map[string][]byte{s.ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), s.token: []byte("good")} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// memoryDir is a directory in memory where there is such a thing: filters wait for
// the disk at every change of trust.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "freshness-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// hostClock is the clock of a host that can sleep, and whose time can be set.
type hostClock struct {
	base time.Time
	mu   sync.Mutex
	// slept is how long it has slept so far, asleep since when it does; stepped is
	// how far its wall clock was set. halved is a defect: it runs half as fast.
	slept, stepped time.Duration
	asleep         time.Time
	halved         bool
}

// Now implements [tokencache.Clock].
func (c *hostClock) Now() tokencache.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	passed := now.Sub(c.base)
	if c.halved {
		passed /= 2
	}
	mono := passed - c.slept
	if !c.asleep.IsZero() {
		mono -= now.Sub(c.asleep)
	}
	return tokencache.Instant{Wall: c.base.Add(passed + c.stepped).UnixNano(), Mono: mono}
}

func (c *hostClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stepped += d
}

func (c *hostClock) sleep(asleep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case asleep && c.asleep.IsZero():
		c.asleep = time.Now()
	case !asleep && !c.asleep.IsZero():
		c.slept += time.Since(c.asleep)
		c.asleep = time.Time{}
	}
}

// host is where one filter runs: the real token cache.
type host struct {
	p       *play
	node    string
	dir     string
	process string
	cache   *tokencache.Cache
	clock   *hostClock
	// up and down hold what the link carries, redis what the way to Redis does.
	up, down *gate
	redis    *route
	links    ends
	unlinked bool // the link is refused
	frozen   bool
}

func (p *play) newHost(i int) *host {
	h := &host{
		p: p, node: fmt.Sprint("cp/default/", i), dir: filepath.Join(p.dir, fmt.Sprint("run-", i)),
		clock: &hostClock{base: time.Now(), halved: p.seeded.slowClock}, up: newGate(), down: newGate(),
	}
	h.redis = &route{redis: p.redis, gates: []*gate{newGate()}}
	h.wipe()
	h.open()
	return h
}

// open starts the filter with what is in its run directory.
func (h *host) open() {
	h.p.serial++
	h.process = fmt.Sprintf("%026d", h.p.serial)
	if err := os.Setenv(contract.ProcessEnv, h.process); err != nil {
		panic(err)
	}
	defer os.Unsetenv(contract.ProcessEnv)
	var err error
	h.cache, err = tokencache.Open(tokencache.Options{
		Settings: &contract.Settings{
			Cache:        contract.CacheSettings{MaxBytes: 1 << 16},
			ControlPlane: &contract.ControlPlaneSettings{Address: "localhost:5678", CAFile: h.p.ca, TokenFile: h.p.token, Node: h.node},
		},
		Dir: h.dir, Logger: slog.New(slog.DiscardHandler), Clock: h.clock, DialLink: h.dialLink, DialRedis: h.redis.dial,
	})
	if err != nil {
		panic(err)
	}
}

// ended is a connection that is closed without a goodbye of TLS, which would wait.
type ended struct {
	*tls.Conn
	raw net.Conn
}

// Close implements net.Conn.
func (e ended) Close() error { return e.raw.Close() }

// dialLink connects to the control plane of the moment.
func (h *host) dialLink(ctx context.Context, _, _ string) (net.Conn, error) {
	if !h.up.pass(ctx.Done()) || !h.down.pass(ctx.Done()) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
	}
	h.p.mu.Lock()
	cp, refused := h.p.plane, h.unlinked
	h.p.mu.Unlock()
	if cp == nil || refused {
		return nil, errRefused
	}
	client, raw := net.Pipe()
	far, served := net.Pipe()
	near := ended{tls.Server(raw, &tls.Config{
		Certificates: []tls.Certificate{h.p.cert}, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519},
	}), raw}
	w := newWire(near, far)
	h.links.add(w)
	cp.links.add(far) // the filter hears of its end on the way of everything else
	h.p.work.Go(func() {
		if !cp.door.enter(context.Background(), served) {
			_ = served.Close()
		}
	})
	w.carry(&h.p.work, frames(near, nil), far, h.up)
	w.carry(&h.p.work, frames(far, h.p.seeded.mangle), near, h.down)
	return client, nil
}

// unlink ends the link, and refuses others if wanted.
func (h *host) unlink(refused bool) {
	h.p.mu.Lock()
	h.unlinked = refused
	h.p.mu.Unlock()
	h.links.cut()
	synctest.Wait()
}

// freeze stops everything that goes in or out; asleep, the monotonic clock stands.
func (h *host) freeze(asleep bool) {
	h.frozen = true
	for _, g := range []*gate{h.up, h.down, h.redis.gates[0]} {
		g.set(true)
	}
	h.clock.sleep(asleep)
}

func (h *host) thaw() {
	h.frozen = false
	h.clock.sleep(false)
	for _, g := range []*gate{h.up, h.down, h.redis.gates[0]} {
		g.set(false)
	}
}

// kill ends the process; what it has on disk stays there.
func (h *host) kill() {
	h.p.mu.Lock()
	was := h.unlinked
	h.p.mu.Unlock()
	h.unlink(true)
	kept := map[string][]byte{}
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		if kept[e.Name()], err = os.ReadFile(filepath.Join(h.dir, e.Name())); err != nil {
			panic(err)
		}
	}
	h.cache.Close()
	h.wipe()
	for name, data := range kept {
		if err := os.WriteFile(filepath.Join(h.dir, name), data, 0o600); err != nil {
			panic(err)
		}
	}
	h.redis.mine.cut()
	h.p.mu.Lock()
	h.unlinked = was
	h.p.mu.Unlock()
	h.thaw()
}

// wipe empties the run directory.
func (h *host) wipe() {
	if err := os.RemoveAll(h.dir); err != nil {
		panic(err)
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		panic(err)
	}
}

// ask asks the filter as a request would.
func (h *host) ask(value string, then func(contract.Answer, []byte)) {
	hash, buf := contract.HashToken([]byte(value)), make([]byte, contract.MaxPacked)
	if n, a := h.cache.Lookup(hash, buf); a != contract.Miss {
		then(a, buf[:n])
		return
	}
	h.cache.Resolve(hash, "plugin", then)
}
