package assembly

import (
	"context"
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
	"github.com/meshgate/meshgate/filter/redisconn"
)

// redisParts is the control plane's side of the second level of the token cache.
type redisParts struct {
	client   redis.UniversalClient
	embedded *embedded.Server
	// url is for the control plane. nodeURL is given to filters, and its user may only read.
	url, nodeURL, ca string
}

// openRedis connects to the configured Redis, or starts the embedded one. A configured Redis
// need not be up: nothing waits for it. The embedded one drops keys that ended before the
// time that past returns. That time lags behind a clock that may be wrong, so that a clock
// that is ahead for a moment does not remove keys that are still needed.
func openRedis(c *config.Config, past func() time.Time, log *slog.Logger) (*redisParts, error) {
	redisconn.LogTo(redisLog{log})
	p := &redisParts{url: c.Redis.URL, nodeURL: c.Redis.NodeURL}
	if p.url == "" {
		e, err := embedded.Start(embedded.Options{Port: c.Redis.EmbeddedPort, Now: past, Log: log})
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
	if err := p.connect(c.Redis.CAFile); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// connect prepares the client. It also checks the settings for filters, because filters could
// only log that they cannot use them.
func (p *redisParts) connect(caFile string) error {
	if err := p.readCA(caFile); err != nil {
		return err
	}
	s := contract.RedisSettings{URL: p.url}
	if secured(p.url) {
		s.CAFile = caFile // the file is read again for each connection
	}
	err := redisconn.Check(&s)
	if err == nil {
		p.client, err = revoke.Open(s)
	}
	if err != nil {
		return fmt.Errorf("redis.url: %w", err)
	}
	if s := p.forNodes(true); s != nil {
		c, err := redisconn.Open(redisconn.Options{Settings: *s})
		if err != nil {
			return fmt.Errorf("redis.nodeURL: %w", err)
		}
		return c.Close()
	}
	return nil
}

// secured reports whether a URL asks for TLS.
func secured(url string) bool { return strings.HasPrefix(url, "rediss") }

// redisLog receives what the client library would print by itself.
type redisLog struct{ log *slog.Logger }

// Printf implements the library's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
}

// readCA reads the authorities of a server over TLS. Filters are given them.
func (p *redisParts) readCA(file string) error {
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return fmt.Errorf("redis.caFile: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return fmt.Errorf("redis.caFile: %s holds no certificate", file)
	}
	p.ca = string(pem)
	return nil
}

// tracker returns the tracker of the embedded Redis, or nil if there is none.
func (p *redisParts) tracker() revoke.Tracker {
	if p.embedded == nil {
		return nil
	}
	return p.embedded
}

// forNodes returns the Redis settings of filters, nil if there are none. Filters on other
// hosts do not get the embedded cache, because they cannot reach it.
func (p *redisParts) forNodes(local bool) *contract.RedisSettings {
	if p.nodeURL == "" || (p.embedded != nil && !local) {
		return nil
	}
	s := &contract.RedisSettings{URL: p.nodeURL}
	if secured(p.nodeURL) {
		s.CA = p.ca
	}
	return s
}

// outlives reports whether proxies read a Redis that outlives the control plane. Otherwise
// nobody can check tokens without a control plane.
func (p *redisParts) outlives() bool { return p.embedded == nil && p.nodeURL != "" }

// ports are those at which this process itself serves tokens to filters.
func (p *redisParts) ports() []int {
	if p.embedded == nil {
		return nil
	}
	return []int{p.embedded.Port()}
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
