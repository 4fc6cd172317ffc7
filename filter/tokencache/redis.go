package tokencache

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

const (
	// redisConnections is one for each look-up that has its turn: none waits for
	// a connection, which would count as a failure of Redis.
	redisConnections = maxLookups
	redisDialTimeout = time.Second
	// maxPEM bounds a file of certificates.
	maxPEM = 1 << 20
)

// redisStore is a store in Redis.
type redisStore struct {
	client redis.UniversalClient
}

// openRedis prepares a client; it connects when first used.
func openRedis(s *contract.RedisSettings, dial Dial, timeout time.Duration) (store, error) {
	c, err := redisconn.Open(redisconn.Options{
		Settings: *s, Timeout: timeout, DialTimeout: redisDialTimeout, PoolSize: redisConnections, Dial: dial,
	})
	if err != nil {
		return nil, err
	}
	return &redisStore{client: c}, nil
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

func (s *redisStore) close() error { return s.client.Close() }
