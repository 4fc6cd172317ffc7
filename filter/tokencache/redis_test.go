package tokencache

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/meshgate/meshgate/filter/contract"
)

func put(t *testing.T, r *miniredis.Miniredis, key string, value []byte) {
	t.Helper()
	if err := r.Set(key, string(value)); err != nil {
		t.Fatal(err)
	}
}

// patient lets a busy machine take its time.
const patient = 900 * time.Millisecond

// staticCache opens a cache on a real client of one Redis.
func staticCache(t *testing.T, s *contract.RedisSettings, dial Dial, timeout time.Duration) *Cache {
	t.Helper()
	c, err := Open(Options{
		Settings: &contract.Settings{Redis: s, Scopes: testScopes.Members, Cache: contract.CacheSettings{MaxBytes: 1 << 20}},
		Logger:   slog.New(slog.DiscardHandler), DialRedis: dial, RedisTimeout: timeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func ask(t *testing.T, c *Cache, token int) contract.Answer {
	t.Helper()
	answer := make(chan contract.Answer, 1)
	c.Resolve(hashOf(token), testPlugin, func(a contract.Answer, _ []byte) { answer <- a })
	select {
	case a := <-answer:
		return a
	case <-time.After(time.Minute): // an answer that comes late is an answer: other tests measure its time
		t.Fatal("no answer")
		return contract.Miss
	}
}

func TestRedisStore(t *testing.T) {
	dir := t.TempDir()
	cert, ca := testCertificate(t, dir)
	plain, secured := miniredis.RunT(t), miniredis.NewMiniRedis()
	if err := secured.StartTLS(&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(secured.Close)
	secured.RequireUserAuth("filter", "secret")
	_, port, err := net.SplitHostPort(secured.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		server   *miniredis.Miniredis
		settings contract.RedisSettings
		dial     Dial
	}{
		"plain": {plain, contract.RedisSettings{URL: "redis://" + plain.Addr() + "/0"}, nil},
		"tls, user and password": {
			secured, contract.RedisSettings{URL: "rediss://filter:secret@localhost:" + port, CAFile: ca}, nil,
		},
		"unix": {plain, contract.RedisSettings{URL: "unix://" + filepath.Join(dir, "redis.sock")},
			func(ctx context.Context, network, address string) (net.Conn, error) {
				if network != "unix" || address != filepath.Join(dir, "redis.sock") {
					return nil, errors.New("dialled " + network + " " + address)
				}
				var d net.Dialer
				return d.DialContext(ctx, "tcp", plain.Addr())
			}},
	} {
		t.Run(name, func(t *testing.T) {
			c := staticCache(t, &tc.settings, tc.dial, patient)
			tc.server.FlushAll()
			record, err := testRecord(1, 5).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			put(t, tc.server, contract.RedisRecordKey(testPlane, hashOf(1)), record)
			expect := func(what string, want contract.Answer) {
				t.Helper()
				if got := ask(t, c, 1); got != want {
					t.Errorf("%s: answer %d, want %d (%+v)", what, got, want, c.Stats())
				}
			}
			expect("a record", contract.Found)
			put(t, tc.server, contract.RedisConsumerKey(testPlane, "consumer-1"), contract.Floor{Revision: 6}.Marshal())
			expect("consumer revoked", contract.Unknown)
			tc.server.Del(contract.RedisConsumerKey(testPlane, "consumer-1"))
			expect("floor gone", contract.Found)
			tc.server.SetError("LOADING")
			expect("redis is loading", contract.Unavailable)
			tc.server.SetError("")
			expect("redis is back", contract.Found)
		})
	}
}

// A Redis that does not let the filter in says nothing of tokens: they are not unknown.
func TestRedisThatRefusesThePassword(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireAuth("right")
	c := staticCache(t, &contract.RedisSettings{URL: "redis://:wrong@" + server.Addr()}, nil, patient)
	if got := ask(t, c, 1); got != contract.Unavailable {
		t.Errorf("answer %d (%+v)", got, c.Stats())
	}
	// Other connections may be open from before. What is revoked by a floor stays so.
	s, err := openRedis(&contract.RedisSettings{URL: "redis://:wrong@" + server.Addr()}, nil, nil, patient)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.floors(t.Context(), ownedBy("credential-1", "consumer-1"), false); err == nil {
		t.Error("floors are absent")
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

func TestRedisCertificateIsVerified(t *testing.T) {
	cert, _ := testCertificate(t, t.TempDir())
	_, otherCA := testCertificate(t, t.TempDir())
	server := miniredis.NewMiniRedis()
	if err := server.StartTLS(&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	c := staticCache(t, &contract.RedisSettings{URL: "rediss://" + server.Addr(), CAFile: otherCA}, nil, patient)
	if got := ask(t, c, 1); got != contract.Unavailable {
		t.Errorf("a server of another authority: answer %d", got)
	}
}

// A Redis that accepts and never answers holds nobody beyond its deadlines.
func TestSilentRedis(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
		}
	}()
	defer func() {
		_ = l.Close()
		<-accepted
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	c := staticCache(t, &contract.RedisSettings{URL: "redis://" + l.Addr().String()}, nil, l2Timeout)
	for range breakerFailures {
		if got := ask(t, c, 1); got != contract.Unavailable {
			t.Fatalf("answer %d", got)
		}
	}
	if s := c.Stats(); !s.BreakerOpen || s.L2Errors != breakerFailures {
		t.Errorf("%+v", s)
	}
	c.Close() // and nothing is left behind
}

// A connection that takes longer than a request waits for serves a later one. A dial lasts for a second, which a busy
// machine may need for the request alone: one of several has to come in time.
func TestSlowDialServesLaterRequests(t *testing.T) {
	server := miniredis.RunT(t)
	for range 10 {
		if dialsOn(t, server.Addr()) {
			return
		}
	}
	t.Fatal("the dial ended with its request")
}

// dialsOn reports whether the dial of a request that has not waited for it still leads to a connection.
func dialsOn(t *testing.T, address string) bool {
	t.Helper()
	release, ended := make(chan struct{}), make(chan error, 8)
	c := staticCache(t, &contract.RedisSettings{URL: "redis://" + address},
		func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			defer func() { ended <- err }()
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}, l2Timeout)
	if got := ask(t, c, 1); got != contract.Unavailable {
		t.Fatalf("while dialling: %d", got)
	}
	close(release)
	select {
	case err := <-ended:
		return err == nil
	case <-time.After(time.Minute):
		t.Fatal("the dial does not end")
		return false
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	_, ca := testCertificate(t, dir)
	log := slog.New(slog.DiscardHandler)
	redis := func(url, ca string) *contract.Settings {
		return &contract.Settings{Redis: &contract.RedisSettings{URL: url, CAFile: ca}}
	}
	for name, o := range map[string]Options{
		"no settings":       {Logger: log},
		"two settings":      {Logger: log, Path: "x", Settings: redis("redis://a", "")},
		"no logger":         {Settings: redis("redis://a", "")},
		"no such file":      {Logger: log, Path: filepath.Join(dir, "none")},
		"no such directory": {Logger: log, Path: filepath.Join(dir, "none", "none")},
		"no settings file":  {Logger: log, Path: ca},
		"not a redis url":   {Logger: log, Settings: redis("http://a", "")},
		"ca without tls":    {Logger: log, Settings: redis("redis://a", ca)},
		"no such ca":        {Logger: log, Settings: redis("rediss://a", filepath.Join(dir, "none"))},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Open(o)
			if err == nil {
				c.Close()
				t.Error("opened")
			}
		})
	}
}
