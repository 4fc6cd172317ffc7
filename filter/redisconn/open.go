package redisconn

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// defaultTimeout is the timeout of exchanges and dials.
	defaultTimeout = time.Second
	// maxRedirects is how often a cluster may say that a slot is elsewhere, and how often a
	// read without an answer is repeated. For writes see [once].
	maxRedirects = 3
	// maxRetryPause is the longest pause of a client of a cluster between two attempts of
	// one call.
	maxRetryPause = 50 * time.Millisecond
	// slotsFresh is how long a client of a cluster trusts what it knows about slots. After
	// that, a call makes it ask again, because a primary that is gone or stopped redirects
	// nobody to its successor.
	slotsFresh = time.Second
)

// Options say which Redis a client is for and how long it waits.
type Options struct {
	// Settings name the server or servers.
	Settings contract.RedisSettings
	// Timeout bounds a read, a write and the wait for a connection; 0 means 1 s.
	Timeout time.Duration
	// DialTimeout bounds one attempt to connect, including TLS and the question to the
	// sentinels; 0 means 1 s.
	DialTimeout time.Duration
	// PoolSize is the number of connections that are kept to each server; 0 means the
	// default of the library.
	PoolSize int
	// Dial opens connections. TLS is added to them afterwards. nil means [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// OnConnect examines each new connection to a server (not to a sentinel) before it is
	// used. If it returns an error, the connection is closed, and the call that wanted it
	// fails with that error. info asks the server over this very connection.
	OnConnect func(ctx context.Context, info func() (Server, error)) error
	// OnNode is called with the client of each server of a cluster before it is used.
	// Hooks that it adds see the errors that this package gives to commands.
	OnNode func(node *redis.Client)
}

// Open prepares a client, which connects when it is first used. The forms of an address are
//
//	redis://[user:password@]host[:6379][/database]
//	unix://[user:password@]/path/of/socket[?db=database]
//	redis+sentinel://[user:password@]host[:26379][,host…]/master[/database][?sentinel_username=…&sentinel_password=…]
//	redis+cluster://[user:password@]host[:6379][,host…]
//	host:port
//
// For TLS, write rediss instead of redis; TLS then applies to sentinels too. A file of
// certificates is not read before the first connection; see [Check].
func Open(o Options) (redis.UniversalClient, error) {
	silence()
	t, err := parse(o.Settings.URL)
	if err != nil {
		return nil, err
	}
	roots, err := rootsOf(&o.Settings, t)
	if err != nil {
		return nil, err
	}
	o.complete()
	c := &client{dials: newDials(), database: t.database}
	hook := o.OnConnect
	o.OnConnect = func(ctx context.Context, info func() (Server, error)) error {
		if err := c.pins.check(info); err != nil || hook == nil {
			return err
		}
		return hook(ctx, info)
	}
	var good func(text string) bool
	named := newMembers()
	if t.cluster {
		good = named.redirected
	}
	dial := c.dials.counted(limited(c.dials.kept(secured(o.Dial, t, roots)), good))
	switch {
	case t.cluster:
		cluster := redis.NewClusterClient(clusterOptions(&o, t, dial))
		cluster.OnNewNode(func(node *redis.Client) {
			if o.OnNode != nil {
				o.OnNode(node)
			}
			node.AddHook(again{})
			node.AddHook(stamp{})
			named.watch(node)
		})
		cluster.AddHook(once{})
		c.UniversalClient = cluster
	case t.master != "":
		s := &sentinels{target: t, dial: dial, timeout: o.DialTimeout / 2}
		c.UniversalClient = redis.NewClient(serverOptions(&o, t, c.dials.counted(s.dialMaster)))
	default:
		c.UniversalClient = redis.NewClient(serverOptions(&o, t, dial))
	}
	if !t.cluster { // the nodes of a cluster have it
		c.AddHook(again{database: t.database})
	}
	c.AddHook(stamp{})
	return c, nil
}

func (o *Options) complete() {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = defaultTimeout
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
}

// serverOptions are the options of one server. Pipelines share the connections of single
// commands, because a pool of their own would multiply the open connections.
func serverOptions(o *Options, t *address, d dial) *redis.Options {
	r := t.options // what the URL sets beyond address and credentials
	r.Network, r.Addr, r.Dialer, r.TLSConfig = t.network, t.addresses[0], late(d), nil
	r.Username, r.Password, r.DB = t.username, t.password, t.database
	r.MaxRetries, r.DialerRetries = -1, 1
	r.DialTimeout = o.DialTimeout
	r.ReadTimeout, r.WriteTimeout, r.PoolTimeout = o.Timeout, o.Timeout, o.Timeout
	r.ContextTimeoutEnabled = true
	r.PoolSize, r.PipelinePoolSize = o.PoolSize, -1
	r.DisableIdentity = true
	r.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	r.OnConnect = o.connected(t.master != "", t.database)
	return &r
}

func clusterOptions(o *Options, t *address, d dial) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: t.addresses, Dialer: late(d), Username: t.username, Password: t.password,
		MaxRedirects: maxRedirects, MaxRetryBackoff: maxRetryPause, ClusterStateReloadInterval: slotsFresh,
		DialTimeout: o.DialTimeout, DialerRetries: 1,
		ReadTimeout: o.Timeout, WriteTimeout: o.Timeout, PoolTimeout: o.Timeout,
		ContextTimeoutEnabled: true,
		PoolSize:              o.PoolSize, PipelinePoolSize: -1,
		// Otherwise the library would ask the server for its commands.
		DisableRoutingPolicies:   true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		OnConnect:                o.connected(false, 0),
	}
}

// connected returns the check of a new connection. Behind sentinels the server must be a
// primary: a sentinel that is cut off from the others still names the old one.
func (o *Options) connected(primary bool, database int) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, conn *redis.Conn) error {
		ctx = notAgain(ctx)
		info := sync.OnceValues(func() (Server, error) { return ask(ctx, conn.Pipeline(), database) })
		if primary {
			s, err := info()
			if err != nil {
				return err
			}
			if s.Role != "" && s.Role != rolePrimary {
				return errNotPrimary
			}
		}
		return o.OnConnect(ctx, info)
	}
}

// client is a client of the library together with its dials.
type client struct {
	redis.UniversalClient
	dials    *dials
	pins     pins
	database int
}

// Close closes all connections, cancels the dials in progress and waits for them.
func (c *client) Close() error {
	c.dials.end()
	err := c.UniversalClient.Close()
	c.dials.wait()
	return err
}
