package tokencache

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// admin is a client that may do everything.
func admin(t *testing.T, server *redistest.Server) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Address(), DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func openServer(t *testing.T, server *redistest.Server, vouched []string) *redisStore {
	t.Helper()
	st, err := openRedis(&contract.RedisSettings{URL: "redis://" + server.Address()}, vouched, nil, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.close() })
	return st.(*redisStore) //nolint:forcetypeassert // it makes no other
}

// A connection leads to a server that the control plane vouches for, or is none:
// not to one that was started anew on the same port, nor to one that follows
// another since.
func TestConnectionsLeadToTheServersVouchedFor(t *testing.T) {
	server := redistest.Start(t)
	ctx, db := context.Background(), admin(t, server)
	all, err := redisconn.Identify(ctx, db)
	if err != nil || len(all) != 1 || all[0].Identity() == "" {
		t.Fatalf("%+v %v", all, err)
	}
	first := []string{all[0].Identity()}
	if err := db.Set(ctx, contract.RedisClockKey, contract.Clock{Epoch: 1}.Marshal(), 0).Err(); err != nil {
		t.Fatal(err)
	}
	old := openServer(t, server, first)
	if at, err := old.record(ctx, testScopes, hashOf(1), true); err != nil || at.clock == nil {
		t.Errorf("the server: %q %v", at.clock, err)
	}
	if _, _, err := old.floors(ctx, ownedBy("a", "b"), true); err != nil {
		t.Errorf("the server, asked again: %v", err)
	}
	if _, err := openServer(t, server, []string{"another"}).record(ctx, testScopes, hashOf(1), true); !errors.Is(err, redisconn.ErrNotVouched) {
		t.Errorf("another server: %v", err)
	}
	if err := db.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := openServer(t, server, first).record(ctx, testScopes, hashOf(1), true); !errors.Is(err, redisconn.ErrNotVouched) {
		t.Errorf("a replica: %v", err)
	}
	// Redis leaves open what is open: the first client reads on, from a server that takes
	// over what another one holds.
	if _, _, err := old.floors(ctx, ownedBy("a", "b"), true); !errors.Is(err, redisconn.ErrNotVouched) {
		t.Errorf("a replica, through a connection to the primary that it was: %v", err)
	}
	if _, _, err := old.floors(ctx, ownedBy("a", "b"), false); err != nil {
		t.Errorf("with a lease, when the control plane tells: %v", err)
	}
	if err := db.Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := old.floors(ctx, ownedBy("a", "b"), true); !errors.Is(err, redisconn.ErrNotVouched) {
		t.Errorf("a primary again, with what it took over: %v", err)
	}
	server.Restart(t)
	if _, err := old.record(ctx, testScopes, hashOf(1), true); err == nil {
		// The connection had ended; the next one finds another server.
		t.Error("a server that was started anew is read")
	}
	if _, err := old.record(ctx, testScopes, hashOf(1), true); !errors.Is(err, redisconn.ErrNotVouched) {
		t.Errorf("a server that was started anew: %v", err)
	}
	if _, err := openServer(t, server, nil).record(ctx, testScopes, hashOf(1), true); err != nil {
		t.Errorf("any server: %v", err)
	}
}

// A server is known by the database that is used, too, and with what little it says.
func TestAskedAgainInAnyDatabase(t *testing.T) {
	server := redistest.Start(t)
	settings := contract.RedisSettings{URL: "redis://" + server.Address() + "/3"}
	c, err := redisconn.Open(redisconn.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	all, err := redisconn.Identify(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for identity, want := range map[string]error{
		all[0].Identity():                        nil,
		"another/" + all[0].ReplID + "#3":        nil, // no connection is: a process ends with its own
		all[0].RunID + "/" + all[0].ReplID:       redisconn.ErrNotVouched,
		all[0].RunID + "/another#3":              redisconn.ErrNotVouched,
		all[0].RunID + "#3":                      redisconn.ErrNotVouched, // it said less, and follows another one since
		all[0].RunID + "/" + all[0].ReplID + "#": redisconn.ErrNotVouched,
	} {
		pipe := c.Pipeline()
		read := pipe.GetRange(t.Context(), "x", 0, 1)
		_, _ = pipe.Exec(redisconn.Again(t.Context(), []string{"x/y", identity}))
		if err := read.Err(); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", identity, err, want)
		}
	}
}

// Servers that do not say everything are not taken for those vouched for.
func TestServersThatSayLittle(t *testing.T) {
	for _, tc := range []struct {
		server redisconn.Server
		want   error
	}{
		{redisconn.Server{RunID: "a", Role: "master"}, nil},
		{redisconn.Server{RunID: "b"}, nil},
		{redisconn.Server{RunID: "a", ReplID: "r", Role: "master"}, redisconn.ErrNotVouched}, // it has followed another one
		{redisconn.Server{RunID: "a", Role: "slave"}, redisconn.ErrNotVouched},
		{redisconn.Server{RunID: "a", Role: "sentinel"}, redisconn.ErrNotVouched},
		{redisconn.Server{RunID: "c", Role: "master"}, redisconn.ErrNotVouched},
		{redisconn.Server{Role: "master"}, redisconn.ErrNotVouched},
	} {
		if err := redisconn.Vouched([]string{"a", "b", ""})(t.Context(), func() (redisconn.Server, error) { return tc.server, nil }); !errors.Is(err, tc.want) {
			t.Errorf("%+v: %v", tc.server, err)
		}
	}
}

// Whoever can write Redis cannot make Envoy hold what stands there: values that
// nobody of ours has written are not read to their end, and say nothing about
// Redis itself.
func TestLargeValuesAreNotRead(t *testing.T) {
	const size = 64 << 20
	server := redistest.Start(t)
	ctx, db, st := context.Background(), admin(t, server), openServer(t, server, nil)
	record := func() error { _, err := st.record(ctx, testScopes, hashOf(1), true); return err }
	floors := func() error { _, _, err := st.floors(ctx, ownedBy("a", "b"), true); return err }
	for name, tc := range map[string]struct {
		key  string
		read func() error
	}{
		"clock": {contract.RedisClockKey, record}, "members": {contract.RedisMembersKey(testPlane), record}, "record": {contract.RedisRecordKey(testPlane, hashOf(1)), record},
		"credential": {contract.RedisCredentialKey(testPlane, "a"), floors}, "consumer": {contract.RedisConsumerKey(testPlane, "b"), floors},
	} {
		if err := tc.read(); err != nil {
			t.Errorf("%s, absent: %v", name, err)
		}
		if err := db.SetRange(ctx, tc.key, size-1, "x").Err(); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := tc.read()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errUnusable) || got > 1<<20 {
			t.Errorf("%s of %d bytes: %v, %d bytes allocated", name, size, err, got)
		}
		if err := errors.Join(db.Del(ctx, tc.key).Err(), db.LPush(ctx, tc.key, "x").Err()); err != nil {
			t.Fatal(err)
		}
		if err := tc.read(); !errors.Is(err, errUnusable) {
			t.Errorf("%s, a list: %v", name, err)
		}
		if err := db.Del(ctx, tc.key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// The largest value that is written fits, a byte more does not.
	for size, want := range map[int]error{contract.MaxSigned: nil, contract.MaxSigned + 1: errUnusable} {
		if err := db.Set(ctx, contract.RedisRecordKey(testPlane, hashOf(1)), bytes.Repeat([]byte("x"), size), 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := record(); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A value that cannot be used costs its own look-up an introspection, and no other
// one its Redis.
func TestUnusableValuesDoNotCountAgainstRedis(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Unknown, Revision: 9}
		}
		w.live()
		w.store.fail = errUnusable
		for i := range 2 * breakerFailures {
			w.want("unusable", w.resolve(i), contract.Unknown)
		}
		if s := w.cache.Stats(); s.L2Untrusted != 2*breakerFailures || s.L2Errors != 0 || s.BreakerOpen {
			t.Errorf("%+v", s)
		}
	})
}
