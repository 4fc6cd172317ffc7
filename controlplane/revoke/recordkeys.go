package revoke

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// Lifetime of the keys that sign records. Filters are told of a new key at once, and it
// signs a day later. At most maxRecordKeys keys stay known. A filter that was away during
// this time treats records as absent and introspects, so no token is refused.
const (
	recordKeyLife  = 30 * 24 * time.Hour
	recordKeyLead  = 24 * time.Hour
	maxRecordKeys  = 4
	recordKeyCheck = time.Hour
)

// RecordKeys are the signing keys of one control plane, oldest first. The store seals them.
type RecordKeys struct {
	Keys []RecordKey `json:"keys"`
}

// RecordKey is one key that signs records.
type RecordKey struct {
	// Seed is the private key of RFC 8032.
	Seed []byte `json:"seed"`
	// Created is when the key was made, in milliseconds of Unix time.
	Created int64 `json:"created"`

	// private is made of the seed, which costs as much as a signature.
	private ed25519.PrivateKey
}

var recordKeys = &model.Kind{
	Name: "record_key", Path: "record-keys", Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true, Sealed: true,
	New: func() any { return new(RecordKeys) },
}

// due reports whether the newest key is so old that a new one is needed. So it is, too, if
// the key was made by a clock that was ahead: it would sign, and be replaced, as much too
// late. A key that is ahead by less than recordKeyLead may stay.
func (k *RecordKeys) due(now time.Time) bool {
	if len(k.Keys) == 0 {
		return true
	}
	age := now.Sub(time.UnixMilli(k.Keys[len(k.Keys)-1].Created))
	return age >= recordKeyLife || age < -recordKeyLead
}

// signing returns the newest key that filters have known for long enough. The very first
// key signs at once, because filters cannot know another one.
func (k *RecordKeys) signing(now time.Time) *RecordKey {
	for i := len(k.Keys) - 1; i > 0; i-- {
		if now.Sub(time.UnixMilli(k.Keys[i].Created)) >= recordKeyLead {
			return &k.Keys[i]
		}
	}
	return &k.Keys[0]
}

// signer signs records with the keys of the store.
type signer struct {
	store store.Store
	now   func() time.Time
	keys  atomic.Pointer[RecordKeys]
}

// renew loads the keys, and adds a key if it is time. changed says that filters must be
// told.
func (s *signer) renew(ctx context.Context) (changed bool, err error) {
	var got *RecordKeys
	read := func(r store.Reader) error {
		row, err := r.Get(recordKeys, "", singleton)
		if fault.Is(err, fault.NotFound) || errors.Is(err, store.ErrUnreadable) { // records of lost keys are absent for filters
			got = &RecordKeys{}
			return nil
		}
		if err == nil {
			got = row.Spec.(*RecordKeys)
		}
		return err
	}
	if err = s.store.View(ctx, read); err == nil && got.due(s.now()) {
		_, err = s.store.Update(ctx, model.Credential, func(tx store.Tx) error {
			if err := read(tx); err != nil || !got.due(s.now()) { // another process may have been first
				return err
			}
			seed := make([]byte, ed25519.SeedSize)
			_, _ = rand.Read(seed) // it never fails
			next := &RecordKeys{Keys: append(slices.Clone(got.Keys), RecordKey{Seed: seed, Created: s.now().UnixMilli()})}
			next.Keys = next.Keys[max(0, len(next.Keys)-maxRecordKeys):]
			_, err := tx.Get(recordKeys, "", singleton)
			got = next
			return put(tx, &model.Resource{Kind: recordKeys, Name: singleton, Spec: next}, err)
		})
	}
	if err != nil {
		return false, fmt.Errorf("keys of records: %w", err)
	}
	if got, err = got.derived(); err != nil {
		return false, err
	}
	last := s.keys.Swap(got)
	return last == nil || !slices.EqualFunc(last.Keys, got.Keys, func(a, b RecordKey) bool { return string(a.Seed) == string(b.Seed) }), nil
}

// derived returns a copy of the keys that can sign. What was read belongs to the store.
func (k *RecordKeys) derived() (*RecordKeys, error) {
	own := &RecordKeys{Keys: slices.Clone(k.Keys)}
	for i := range own.Keys {
		if len(own.Keys[i].Seed) != ed25519.SeedSize {
			return nil, errors.New("keys of records: one has a wrong length")
		}
		own.Keys[i].private = ed25519.NewKeyFromSeed(own.Keys[i].Seed)
	}
	return own, nil
}

// public is the half of a key that filters are told.
func (k *RecordKey) public() ed25519.PublicKey {
	return k.private.Public().(ed25519.PublicKey) //nolint:forcetypeassert // of an ed25519 key it is one
}

// sign encodes a record for Redis.
func (s *signer) sign(rec *contract.Record, hash contract.Hash) ([]byte, error) {
	return rec.Sign(hash, s.keys.Load().signing(s.now()).private)
}

// public lists the keys that filters verify with.
func (s *signer) public() []contract.RecordKey {
	keys := s.keys.Load().Keys
	out := make([]contract.RecordKey, len(keys))
	for i := range keys {
		out[i] = contract.NewRecordKey(keys[i].public())
	}
	return out
}

// renewKeys adds keys when it is time and tells filters, until the Revoker is closed.
func (r *Revoker) renewKeys() {
	tick := time.NewTicker(recordKeyCheck)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
			r.renewKeysOnce()
		}
	}
}

func (r *Revoker) renewKeysOnce() {
	changed, err := r.signer.renew(r.ctx)
	switch {
	case err != nil && r.ctx.Err() == nil:
		r.log.Error("the keys that sign records could not be renewed", "error", err)
	case changed:
		r.log.Info("a new key will sign records", "keys", len(r.signer.keys.Load().Keys))
		r.tellAll()
	}
}

// tell tells the filter of a link where the second level is. It is called once it is known
// that the node checks tokens: by its configuration, or by a question that it may ask.
// Other nodes do not need Redis and are not told about it.
func (l *link) tell() {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if !l.accepts || l.level2 {
		return
	}
	l.level2 = true
	l.sendLevel2()
}

// tellAll repeats the message to all filters that had it.
func (r *Revoker) tellAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		if l.level2 {
			l.sendLevel2()
		}
	}
}

// sendLevel2 queues the message. mu is held.
func (l *link) sendLevel2() {
	m := contract.Level2{Keys: l.r.signer.public()}
	if l.r.o.NodeRedis != nil {
		m.Redis = l.r.o.NodeRedis(l.local)
	}
	body, err := contract.EncodeJSON(m)
	if err != nil {
		l.r.log.Error("the second level cannot be told", "error", err)
		return
	}
	l.push(frame{contract.FrameLevel2, body})
}

// RecordKeyInfo is the public information about a signing key.
type RecordKeyInfo struct {
	// Name is the beginning of its public key, in hex.
	Name    string
	Created time.Time
	// Signs is set for the key that signs now.
	Signs bool
}

// RecordKeys lists the keys that sign records, oldest first, and returns when the next key
// will be made.
func (r *Revoker) RecordKeys() (keys []RecordKeyInfo, next time.Time) {
	stored := r.signer.keys.Load()
	signing := stored.signing(r.signer.now())
	for i := range stored.Keys {
		k := &stored.Keys[i]
		created := time.UnixMilli(k.Created)
		keys = append(keys, RecordKeyInfo{Name: hex.EncodeToString(k.public()[:8]), Created: created, Signs: k == signing})
		next = created.Add(recordKeyLife)
	}
	return keys, next
}
