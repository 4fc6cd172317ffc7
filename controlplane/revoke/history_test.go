package revoke

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/tokencache"
)

func TestSlowLinkDelaysNobody(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		name := w.mint("a", false)
		w.connect("slow") // has no lease and never reads again
		f, _ := w.connect("fast")
		f.lease()
		done := async(func() error { return w.delete(name) })
		f.ack(f.invalidated().To)
		if d, err := took(t, done); err != nil || d != 0 {
			t.Fatalf("%v after %v", err, d)
		}
	})
}

// dataPlaneTLS returns the TLS settings of a server that filters accept as the control
// plane.
func dataPlaneTLS(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, URIs: []*url.URL{contract.DataPlaneURI()}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS13, NextProtos: []string{"http/1.1"},
	}
}

// realFilter connects the real cache with the world's server over TLS.
func (w *world) realFilter() *tokencache.Cache {
	w.t.Helper()
	secured := dataPlaneTLS(w.t)
	dir := w.t.TempDir()
	ca, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificates[0].Certificate[0]})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte("good"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	address, dial := w.secured(secured)
	c, err := tokencache.Open(tokencache.Options{Logger: slog.New(slog.DiscardHandler), RedisTimeout: w.patience, DialLink: dial, Settings: &contract.Settings{
		Cache: contract.CacheSettings{MaxBytes: 4 << 20},
		ControlPlane: &contract.ControlPlaneSettings{
			Address: address, CAFile: ca, TokenFile: token, Node: "node"},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	until(w.t, "lease", func() bool { return c.Stats().Leased })
	return c
}

// secured starts a server with TLS, and returns where it is and how it is reached; nil is as
// any other.
func (w *world) secured(settings *tls.Config) (address string, dial tokencache.Dial) {
	if w.virtual {
		p := w.listen(settings)
		return "127.0.0.1:1", func(context.Context, string, string) (net.Conn, error) {
			conn, err := p.dial()
			if err == nil && w.through != nil {
				conn = w.through(conn)
			}
			return conn, err
		}
	}
	server := httptest.NewUnstartedServer(http.Handler(w.r))
	server.TLS = settings
	server.StartTLS()
	w.t.Cleanup(server.Close)
	return server.Listener.Addr().String(), nil
}

// check asks a real filter about a token, as a request would.
func check(c *tokencache.Cache, token string) contract.Answer {
	hash := contract.HashToken([]byte(token))
	if _, a := c.Lookup(hash, make([]byte, contract.MaxPacked)); a != contract.Miss {
		return a
	}
	answer := make(chan contract.Answer, 1)
	c.Resolve(hash, "plugin", func(a contract.Answer, _ []byte) { answer <- a })
	return <-answer
}

// input is one operation. filter is the number of the filter that a check asked.
type input struct {
	op, token string
	filter    int
}

// register is the guarantee of docs/adr/0003-freshness.md. For each filter, a token is a
// register that calls issue and revoke, for all filters alike. So from the return of a call
// on, all filters agree. During a call, one filter may be ahead of another, and the
// guarantee only orders the answers of each filter.
var register = porcupine.Model{
	Partition: func(h []porcupine.Operation) [][]porcupine.Operation {
		type key struct {
			token  string
			filter int
		}
		by := map[key][]porcupine.Operation{}
		for _, o := range h {
			if in := o.Input.(input); in.op == "check" {
				by[key{in.token, in.filter}] = append(by[key{in.token, in.filter}], o)
			}
		}
		var out [][]porcupine.Operation
		for k, p := range by {
			for _, o := range h {
				if in := o.Input.(input); in.op != "check" && in.token == k.token {
					p = append(p, o)
				}
			}
			out = append(out, p)
		}
		return out
	},
	Init: func() any { return false },
	Step: func(state, in, out any) (bool, any) {
		switch in.(input).op {
		case "issue":
			return true, true
		case "revoke":
			return true, false
		}
		return out.(contract.Answer) == contract.Unavailable || (out.(contract.Answer) == contract.Found) == state.(bool), state
	},
}

// TestHistoryIsLinearizable issues, revokes and reissues the same values while several real
// filters are asked all the time.
func TestHistoryIsLinearizable(t *testing.T) {
	t.Parallel()
	alone(t, linearizable)
}

// linearizable has those who ask spin, so that virtual time stands still: nobody's patience
// ends. What was called before what has an order of its own.
func linearizable(t *testing.T, w *world) {
	var mu sync.Mutex
	var history []porcupine.Operation
	var moment atomic.Int64
	note := func(client int, in input, run func() any) {
		call := moment.Add(1)
		out := run()
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: moment.Add(1)})
	}
	const rounds = 10
	revoked := 0
	tokens := []string{"x", "y"}
	stop := make(chan struct{})
	var checkers, writers sync.WaitGroup
	caches := []*tokencache.Cache{w.realFilter(), w.realFilter(), w.realFilter()}
	decided, unclear := map[input]map[contract.Answer]int{}, 0
	count := func(in input, out contract.Answer) { // mu is held
		if out.Rejects() {
			out = contract.Unknown // the reason does not matter
		}
		switch {
		case out == contract.Unavailable:
			unclear++
			return
		case decided[in] == nil:
			decided[in] = map[contract.Answer]int{}
		}
		decided[in][out]++
	}
	for i, c := range caches {
		checkers.Go(func() {
			last := map[string]any{}
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				token := tokens[n%2]
				in := input{"check", token, i}
				call := moment.Add(1)
				out := check(c, token)
				ret := moment.Add(1)
				mu.Lock()
				count(in, out)
				// Of many equal answers a sample is enough.
				if last[token] != any(out) || n%64 < 2 {
					last[token] = out
					history = append(history, porcupine.Operation{ClientId: 10 + i, Input: in, Call: call, Output: out, Return: ret})
				}
				mu.Unlock()
			}
		})
	}
	for i, token := range tokens {
		writers.Go(func() {
			ask := func() { // right after each write, at every filter
				for f, c := range caches {
					in := input{"check", token, f}
					note(i, in, func() any {
						out := check(c, token)
						mu.Lock()
						defer mu.Unlock()
						count(in, out)
						return out
					})
				}
			}
			for range rounds {
				var name string
				note(i, input{op: "issue", token: token}, func() any { name = w.mint(token, true); return nil })
				ask()
				note(i, input{op: "revoke", token: token}, func() any {
					err := w.delete(name)
					if err != nil {
						t.Error(err)
						return nil
					}
					mu.Lock()
					revoked++
					mu.Unlock()
					return nil
				})
				ask()
			}
		})
	}
	writers.Wait()
	close(stop)
	checkers.Wait()
	if res := porcupine.CheckOperationsTimeout(register, history, time.Minute); res != porcupine.Ok {
		t.Errorf("history of %d operations: %s", len(history), res)
	}
	// An empty history is linearizable as well, so require decisions.
	total := 0
	for _, token := range tokens {
		for i := range caches {
			by := decided[input{"check", token, i}]
			total += by[contract.Found] + by[contract.Unknown]
			if by[contract.Found] < rounds/2 || by[contract.Unknown] < rounds/2 {
				t.Errorf("filter %d decided about %s: %v", i, token, by)
			}
		}
	}
	if revoked != rounds*len(tokens) || unclear*20 > total {
		t.Errorf("%d revocations, %d checks decided, %d not", revoked, total, unclear)
	}
}
