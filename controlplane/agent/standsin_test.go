package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// aRedis starts a real Redis with the clock of an epoch. end stops it.
func aRedis(t *testing.T, epoch contract.Epoch) (url, identity string, end func()) {
	t.Helper()
	server := redistest.Start(t)
	url = "redis://" + server.Address()
	c, err := redisconn.Open(redisconn.Options{Settings: contract.RedisSettings{URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	clock, err := json.Marshal(contract.Clock{Epoch: epoch})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Set(t.Context(), contract.RedisClockKey, clock, 0).Err(); err != nil {
		t.Fatal(err)
	}
	all, err := redisconn.Identify(t.Context(), c)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return url, all[0].Identity(), server.Kill
}

// writing returns a function that writes files of the agent's run directory, as a filter
// does.
func writing(t *testing.T, a *Agent) func(file, format string, args ...any) {
	return func(file, format string, args ...any) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(a.dir.path, file), fmt.Appendf(nil, format, args...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBlindWithoutTheRedisItWasToldOf: the trust on disk is useless if its Redis has ended
// with the control plane, as the embedded one does, or is another one.
func TestBlindWithoutTheRedisItWasToldOf(t *testing.T) {
	cp := newControlPlane(t)
	o, _ := cp.options(t, "gw")
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	a.asks = patience
	url, identity, end := aRedis(t, 7)
	write := writing(t, a)
	write("settings.json", `{"control_plane":{"address":%q,"ca_file":"ca","token_file":"token","node":%q}}`, a.host, a.NodeID())
	told := func(epoch int, server string) {
		write(contract.TrustFile, `{"address":%q,"node":%q,"trust":{"epoch":%d,"servers":[%q]},"scopes":{"of":"default","members":["default"]},"leased_ms":%d}`, a.host, a.NodeID(), epoch, server, time.Now().UnixMilli())
	}
	expect := func(when, want string) {
		t.Helper()
		if got := a.blind(t.Context()); got != want {
			t.Errorf("%s: %q", when, got)
		}
	}
	expect("nothing on disk", statusBlind)
	told(7, identity)
	expect("nobody said where Redis is", statusBlindRedis)
	write(contract.Level2File, `{"address":%q,"node":%q,"level2":{"redis":{"url":%q}}}`, a.host, a.NodeID(), url)
	expect("the Redis that it was told of", "")
	told(8, identity)
	expect("a Redis of another epoch", statusBlindRedis)
	told(7, "another")
	expect("another Redis", statusBlindRedis)
	told(7, identity)
	end()
	expect("a Redis that has ended", statusBlindRedis)
	a.reached.Store(true)
	expect("the control plane is there", "")
}
