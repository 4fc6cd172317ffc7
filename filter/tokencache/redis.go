package tokencache

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// redisConnections is one for each look-up that has its turn: none waits for
	// a connection, which would count as a failure of Redis.
	redisConnections = maxLookups
	redisDialTimeout = time.Second
	// maxPEM bounds a file of certificates.
	maxPEM = 1 << 20
)

// redisStore is a store in one Redis. Connections are opened on goroutines of
// go-redis, which outlive the request that wanted one, so that a Redis far away
// can be reached at all; the store counts them and ends them when it is closed.
type redisStore struct {
	client *redis.Client
	ctx    context.Context // of all dials
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	dials  sync.WaitGroup
}

// silence keeps go-redis from writing to stderr: inside Envoy a write to a pipe
// without a reader is fatal, and errors are reported by their callers.
type silence struct{}

// Printf drops what go-redis would log.
func (silence) Printf(context.Context, string, ...any) {}

var silenceOnce sync.Once

// openRedis prepares a client; it connects when first used.
func openRedis(s *contract.RedisSettings, dial Dial, timeout time.Duration) (store, error) {
	silenceOnce.Do(func() { redis.SetLogger(silence{}) })
	o, err := redis.ParseURL(s.URL)
	if err != nil {
		return nil, errors.New("url is not a redis://, rediss:// or unix:// address") // the cause may quote the password
	}
	if s.CAFile != "" || s.CA != "" {
		if o.TLSConfig == nil {
			return nil, errors.New("ca_file or ca needs a rediss:// url")
		}
	}
	roots := rootsOf(s)
	if _, err := roots(); err != nil {
		return nil, err
	}
	st := &redisStore{}
	st.ctx, st.cancel = context.WithCancel(context.Background())
	o.Dialer = st.counted(tlsDialer(dial, o.TLSConfig, roots))
	o.TLSConfig = nil // the dialer does it, with the CA file of that moment
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout = redisDialTimeout
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout
	o.ContextTimeoutEnabled = true
	o.PoolSize = redisConnections
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	st.client = redis.NewClient(o)
	return st, nil
}

// counted ties a dial to the life of the store.
func (s *redisStore) counted(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, net.ErrClosed
		}
		s.dials.Add(1)
		s.mu.Unlock()
		defer s.dials.Done()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		return dial(ctx, network, address)
	}
}

// rootsOf finds the authorities of a server; nil means the system's.
func rootsOf(s *contract.RedisSettings) func() (*x509.CertPool, error) {
	switch {
	case s.CAFile != "":
		return func() (*x509.CertPool, error) { return readCertificates(s.CAFile) }
	case s.CA != "":
		return func() (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM([]byte(s.CA)) {
				return nil, errors.New("ca holds no certificate")
			}
			return pool, nil
		}
	}
	return func() (*x509.CertPool, error) { return nil, nil }
}

// tlsDialer adds TLS to dial if base is not nil. The CA file is read for every
// connection, so that a rotated one needs no restart.
func tlsDialer(dial Dial, base *tls.Config, roots func() (*x509.CertPool, error)) Dial {
	if base == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		cfg := base.Clone()
		cfg.MinVersion = tls.VersionTLS12
		var err error
		if cfg.RootCAs, err = roots(); err != nil {
			return nil, err
		}
		return dialTLS(ctx, dial, network, address, cfg)
	}
}

// dialTLS connects and finishes the handshake within the context.
func dialTLS(ctx context.Context, dial Dial, network, address string, cfg *tls.Config) (*tls.Conn, error) {
	raw, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is the one that matters
		return nil, fmt.Errorf("tls handshake with %s: %w", address, err)
	}
	return conn, nil
}

func readCertificates(path string) (*x509.CertPool, error) {
	data, err := readLimited(path, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("ca file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("ca file %s holds no certificate", path)
	}
	return pool, nil
}

// readLimited reads a whole file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s exceeds %d bytes", path, limit)
	}
	return data, err
}

func (s *redisStore) record(ctx context.Context, hash contract.Hash) (entry, clock []byte, err error) {
	return s.get(ctx, contract.RedisRecordKey(hash), contract.RedisClockKey)
}

func (s *redisStore) tombstones(ctx context.Context, credential, consumer string) (ofCredential, ofConsumer []byte, err error) {
	second := ""
	if consumer != "" {
		second = contract.RedisConsumerKey(consumer)
	}
	return s.get(ctx, contract.RedisCredentialKey(credential), second)
}

// get reads one or two keys in one pipeline of single-key GETs, which behaves
// alike on a single node, behind Sentinel and in a cluster.
func (s *redisStore) get(ctx context.Context, first, second string) (a, b []byte, err error) {
	pipe := s.client.Pipeline()
	one := pipe.Get(ctx, first)
	var two *redis.StringCmd
	if second != "" {
		two = pipe.Get(ctx, second)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, nil, fmt.Errorf("read redis: %w", err)
	}
	if a, err = value(one); err != nil {
		return nil, nil, err
	}
	if two != nil {
		b, err = value(two)
	}
	return a, b, err
}

func value(cmd *redis.StringCmd) ([]byte, error) {
	v, err := cmd.Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read redis: %w", err)
	}
	return v, nil
}

func (s *redisStore) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	err := s.client.Close()
	s.dials.Wait()
	return err
}
