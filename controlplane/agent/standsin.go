package agent

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

// maxClock bounds what is read of the clock in Redis, in bytes.
const maxClock = 1 << 10

// standsIn reports whether there is a Redis that this gateway's filter can believe while
// the control plane is away. One of the servers that the filter was told of must answer,
// and must hold the clock of the epoch that the filter was told of. Otherwise every token
// is refused, whatever is on disk. An embedded Redis ends with its control plane, and a
// Redis of the operator may be away as well, or may have been replaced.
func (a *Agent) standsIn(ctx context.Context) bool {
	var said struct {
		Trust contract.Trust `json:"trust"`
	}
	var where struct {
		Level2 contract.Level2 `json:"level2"`
	}
	if !a.dir.recall(contract.TrustFile, &said) || !a.dir.recall(contract.Level2File, &where) || where.Level2.Redis == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, a.askTime())
	defer cancel()
	clock, err := a.readClock(ctx, where.Level2.Redis, said.Trust.Servers)
	return err == nil && clock.Epoch == said.Trust.Epoch
}

// recall reads what the last filter wrote into the run directory. A file that cannot be
// read is of no use to the next filter either.
func (d *runDir) recall(file string, into any) bool {
	data, err := os.ReadFile(filepath.Join(d.path, file)) //nolint:gosec // below the state directory
	return err == nil && json.Unmarshal(data, into) == nil
}

// readClock reads the clock as a filter does: only from one of the given servers, and at
// most maxClock bytes.
func (a *Agent) readClock(ctx context.Context, s *contract.RedisSettings, servers []string) (contract.Clock, error) {
	c, err := redisconn.Open(redisconn.Options{Settings: *s, Timeout: a.askTime(), DialTimeout: a.askTime(), PoolSize: 1, OnConnect: redisconn.Vouched(servers)})
	if err != nil {
		return contract.Clock{}, err
	}
	defer func() { _ = c.Close() }()
	text, err := c.GetRange(ctx, contract.RedisClockKey, 0, maxClock).Bytes()
	if err != nil {
		return contract.Clock{}, err
	}
	return contract.ParseClock(text)
}
