package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/revoke/embedded"
	"github.com/meshgate/meshgate/filter/contract"
)

// redisParts are the control plane's side of the second level of the cache.
type redisParts struct {
	client   redis.UniversalClient
	embedded *embedded.Server
	// url is the control plane's, nodeURL what filters are told: it only reads.
	url, nodeURL, ca string
}

// openRedis connects to the configured Redis, or starts the embedded one. A
// configured Redis need not be up: nothing waits for it. guarded is called
// before the embedded one drops a tombstone for want of room.
func openRedis(c *config.Config, log *slog.Logger, guarded func()) (*redisParts, error) {
	redis.SetLogger(redisLog{log})
	p := &redisParts{url: c.Redis.URL, nodeURL: c.Redis.NodeURL}
	if p.url == "" {
		e, err := embedded.Start(embedded.Options{Port: c.Redis.EmbeddedPort, Guarded: guarded, Now: time.Now, Log: log})
		if err != nil {
			return nil, fmt.Errorf("embedded token cache: %w", err)
		}
		p.embedded, p.url = e, e.URL()
		if p.nodeURL == "" {
			p.nodeURL = e.NodeURL()
		}
	}
	if p.nodeURL == "" {
		log.Warn("redis.nodeURL is not set, so proxies are given no Redis, because redis.url may write: they ask the control plane what they do not remember; set it to a user that may only read")
	}
	roots, err := p.roots(c.Redis.CAFile)
	if err == nil {
		p.client, err = revoke.Open(p.url, roots)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// redisLog takes what the client library would print by itself.
type redisLog struct{ log *slog.Logger }

// Printf implements the library's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
}

// roots reads the authorities of a rediss:// server; nil means the system's.
func (p *redisParts) roots(file string) (*tls.Config, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("redis.caFile: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("redis.caFile: %s holds no certificate", file)
	}
	p.ca = string(pem)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// tracker is set for the embedded Redis only.
func (p *redisParts) tracker() revoke.Tracker {
	if p.embedded == nil {
		return nil
	}
	return p.embedded
}

// forNodes is what filters are told, nil if nothing. They never get what may
// write, nor the embedded cache from another host, where it is out of reach.
func (p *redisParts) forNodes(local bool) *contract.RedisSettings {
	if p.nodeURL == "" || (p.embedded != nil && !local) {
		return nil
	}
	s := &contract.RedisSettings{URL: p.nodeURL}
	if strings.HasPrefix(p.nodeURL, "rediss://") {
		s.CA = p.ca
	}
	return s
}

func (p *redisParts) close() {
	if p == nil {
		return
	}
	if p.client != nil {
		_ = p.client.Close()
	}
	if p.embedded != nil {
		p.embedded.Close()
	}
}
