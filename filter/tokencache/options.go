package tokencache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

// Options of a cache. Exactly one of Path and Settings is set.
type Options struct {
	// Path of the settings file. [Open] reads it and fails without it. It is read again
	// whenever it changes. A version that cannot be read or parsed is logged, and the last
	// good one stays in force.
	Path string
	// Settings are used as they are, for static configurations.
	Settings *contract.Settings
	// Dir is the run directory. It keeps what the control plane has said for the next
	// process. It defaults to the directory of Path; without either nothing is kept.
	Dir string
	// Process is the name that the agent gave the process whose cache this is; empty means
	// the one in [contract.ProcessEnv].
	Process string
	// Logger is required.
	Logger *slog.Logger
	// Recover runs fn and recovers from its panics. Every goroutine of the cache runs inside
	// it, because an escaped panic would end Envoy. The default logs the panic.
	Recover func(name string, fn func())
	// Clock defaults to the clock of the system.
	Clock Clock
	// DialLink and DialRedis open the connections to the control plane and to Redis. The
	// cache adds TLS. The default is [net.Dialer].
	DialLink, DialRedis Dial
	// RedisTimeout bounds each of the two reads of a look-up in Redis; 0 means 100 ms.
	// Without a link the bound is four times as long.
	RedisTimeout time.Duration

	// openStore replaces Redis in tests, and openFiles the disk. openStore must not wait for
	// a disk, because the reader of the link calls it. checkStore has read the files that
	// the settings name before.
	openStore  func(s *contract.RedisSettings, servers []string) (store, error)
	checkStore func(s *contract.RedisSettings) error
	openFiles  func(dir string) files
	// leaveTimeout replaces forgetTimeout and goodbyeTimeout in tests: how long a machine
	// with much to do takes to say goodbye is not what they are about.
	leaveTimeout time.Duration
}

// Dial opens a connection, and gives up when the context ends.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

func (o *Options) complete() error {
	if (o.Path == "") == (o.Settings == nil) {
		return errors.New("token cache: exactly one of settings path and inline settings is needed")
	}
	if o.Path != "" && o.Dir == "" {
		o.Dir = filepath.Dir(o.Path)
	}
	if o.Logger == nil {
		return errors.New("token cache: a logger is needed")
	}
	if o.Recover == nil {
		o.Recover = recoverInto(o.Logger)
	}
	if o.Clock == nil {
		o.Clock = systemClock{base: time.Now()}
	}
	var d net.Dialer
	if o.DialLink == nil {
		o.DialLink = d.DialContext
	}
	if o.DialRedis == nil {
		o.DialRedis = d.DialContext
	}
	if o.RedisTimeout == 0 {
		o.RedisTimeout = l2Timeout
	}
	if o.openFiles == nil {
		o.openFiles = func(dir string) files { return runDirectory(dir) }
	}
	if o.openStore == nil {
		dial, timeout := o.DialRedis, o.RedisTimeout
		o.openStore = func(s *contract.RedisSettings, servers []string) (store, error) {
			return openRedis(s, servers, dial, l2Patience*timeout)
		}
		o.checkStore = redisconn.Check
	}
	if o.checkStore == nil {
		o.checkStore = func(*contract.RedisSettings) error { return nil }
	}
	return nil
}

func recoverInto(log *slog.Logger) func(string, func()) {
	return func(name string, fn func()) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("goroutine panicked", "goroutine", name, "panic", fmt.Sprint(p))
			}
		}()
		fn()
	}
}
