package tokencache

import (
	"encoding/binary"
	"log/slog"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// FuzzFrames hands a session whatever a peer may send. The session must not panic, must not
// apply a frame that does not follow, and must not acknowledge anything that it did not
// apply.
func FuzzFrames(f *testing.F) {
	encode := func(v any) []byte {
		b, err := contract.EncodeJSON(v)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	frame := func(kind contract.FrameType, body []byte) []byte {
		return append(binary.BigEndian.AppendUint16([]byte{byte(kind)}, uint16(len(body))), body...)
	}
	good := &contract.Invalidate{To: 3, Items: []contract.Invalidation{tokenGone(1, 7), {Subject: contract.SubjectConsumer, ID: "c", Revision: 8}}}
	f.Add(append(frame(contract.FrameInvalidate, good.Encode()), frame(contract.FrameTrust, encode(contract.TrustChange{At: 4, Trust: testTrust}))...))
	f.Add(frame(contract.FrameTrust, encode(contract.TrustChange{At: 1})))
	f.Add(frame(contract.FrameGranted, contract.EncodeNumber(1)))
	f.Add(frame(contract.FrameRefilled, contract.EncodeNumber(1)))
	f.Add(frame(contract.FrameLevel2, encode(contract.Level2{Keys: testKeys(testKey)})))
	f.Add(frame(contract.FrameResult, contract.EncodeNumber(1)))
	cp := contract.ControlPlaneSettings{Address: "a:1", Node: "n"}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := bareCache(&contract.Settings{ControlPlane: &cp, Redis: &contract.RedisSettings{URL: "redis://a"}})
		s := newSession(c, nil, cp)
		s.renews[1] = renew{number: 1, sent: c.clock.Now()}
		for len(data) >= 3 {
			kind, n := contract.FrameType(data[0]), int(binary.BigEndian.Uint16(data[1:]))
			data = data[3:]
			n = min(n, len(data))
			before := c.standing.Load().applied
			err := s.apply(kind, data[:n])
			data = data[n:]
			after := c.standing.Load().applied
			if a := s.ack(); after < before || after < a.Applied || a.Applied < a.Durable || (err != nil && after != before) {
				t.Fatalf("applied %d, then %d, acknowledged %+v (%v)", before, after, a, err)
			}
		}
	})
}

// bareCache returns a cache without goroutines and authorities.
func bareCache(s *contract.Settings) *Cache {
	c := &Cache{clock: &fakeClock{}, log: slog.New(slog.DiscardHandler), base: s, table: newTable(1<<16, &fakeClock{})}
	c.opts.openStore = func(*contract.RedisSettings, []string) (store, error) {
		return &fakeStore{values: map[string][]byte{}}, nil
	}
	c.inUse.ready = make(chan struct{}, 1)
	c.standing.Store(&standing{})
	c.config.Store(&config{settings: s})
	return c
}
