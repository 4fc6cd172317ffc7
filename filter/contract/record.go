package contract

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Limits of records.
const (
	// RecordVersion is the version of the record's encoding; others are ignored.
	RecordVersion = 1
	// MaxRecord bounds an encoded record in bytes.
	MaxRecord = 16 << 10
	// MaxPacked bounds the packed form of a record, and so the buffer that a
	// decision needs. Writers refuse consumers and scopes that would exceed it.
	MaxPacked = 4 << 10
	// RecordLife is how long a record may be used after it was read from the store.
	RecordLife = 24 * time.Hour
)

// Hash stands for a secret that a client presents: [HashToken] of an access
// token or [HashKey] of an API key. Secrets themselves never leave the request:
// caches, messages and Redis know only hashes.
type Hash [sha256.Size]byte

// HashToken hashes an access token.
func HashToken(token []byte) Hash { return sha256.Sum256(token) }

// HashKey hashes an API key. Equal texts have different hashes as token and as
// key; since a client chooses the bytes of both, that keeps them apart in
// caches only, and [Record.Key] says which of the two a record is about.
func HashKey(key []byte) Hash {
	inner := sha256.Sum256(key)
	var outer [sha256.Size + len(keyDomain)]byte
	copy(outer[copy(outer[:], keyDomain):], inner[:])
	return sha256.Sum256(outer[:])
}

const keyDomain = "meshgate key\x00"

// Record is everything a filter must know about one valid access token. Records
// are immutable: a change of the token, its credential or its consumer makes a
// new record with a higher revision.
type Record struct {
	Version int `json:"v"`
	// Epoch of Redis under which the record was written there; 0 in answers of
	// introspection, which do not depend on Redis.
	Epoch Epoch `json:"epoch,omitempty"`
	// Revision of the store that the record was read at. A record is usable
	// only if no revocation of its token, credential or consumer is newer.
	Revision uint64 `json:"revision"`
	// Expires is the first millisecond of Unix time at which the token is no
	// longer accepted; 0 means never.
	Expires int64 `json:"expires,omitempty"`
	// Until is when the record is too old to be used, in milliseconds of Unix time:
	// [RecordLife] after it was read. The token may be as good as before; it is
	// looked up again. It bounds how long a revocation must be remembered. 0 means
	// never, which only a static configuration accepts.
	Until int64 `json:"until,omitempty"`
	// Plane is the control plane that holds the credential. A filter uses records of those
	// only that its gateway consists of ([Scopes]). It is empty in records of an authority
	// that names none, and of control planes older than it.
	Plane string `json:"plane,omitempty"`
	// Service is the id of the service the token is bound to; empty for a
	// global token.
	Service string `json:"service,omitempty"`
	// ServicePlane is the control plane of the service, if that is not Plane. A filter uses
	// the record only where its gateway consists of both.
	ServicePlane string `json:"service_plane,omitempty"`
	// Own says that the record counts only at gateways of its own control plane: in some
	// group another member had first the value of the credential, or what upstreams would be
	// told. Gateways of groups pass over it. If no other record counts, they ask the control
	// plane, which knows in which groups that is so, and when the other gives way.
	Own bool `json:"own,omitempty"`
	// Key says that the record is about an API key and not about an access
	// token. A plugin accepts records of its own sort only.
	Key bool `json:"key,omitempty"`
	// Credential is the application the token was issued to, or the API key.
	Credential Credential `json:"credential"`
	// Consumer is nil for credentials of an external authority: then only
	// credential headers are sent upstream.
	Consumer *Consumer `json:"consumer,omitempty"`
	// Scope holds the authorised scopes separated by single blanks.
	Scope string `json:"scope,omitempty"`
	// UserID is the id of the end user who authorised the application.
	UserID string `json:"authenticated_userid,omitempty"`
}

// Credential names an OAuth application or an API key.
type Credential struct {
	ID string `json:"id"`
	// ClientID is what X-Credential-Identifier shows: the application's
	// client_id, or the id of the API key.
	ClientID string `json:"client_id,omitempty"`
}

// Entry is what Redis holds under a token hash: a record, or a tombstone.
type Entry struct {
	// Record is nil in a tombstone.
	Record *Record
	// Revoked is the revision of the revocation, set in tombstones.
	Revoked uint64
}

type tombstone struct {
	Version int    `json:"v"`
	Revoked uint64 `json:"revoked"`
}

// Marshal encodes a record.
func (r *Record) Marshal() ([]byte, error) { return json.Marshal(r) }

// Floor is what must stand under the key of a credential or consumer beside each of
// its records.
type Floor struct {
	// Revision voids the records below it. 0 says that nothing was revoked.
	Revision uint64
	// Epoch is that of the records which it stands beside. One of another epoch may
	// have been written late, over a higher one, and says nothing about them.
	Epoch Epoch
}

// floor is the form of a [Floor]. Floor has no omitempty: that nothing was revoked is
// a statement, too.
type floor struct {
	Version int     `json:"v"`
	Floor   *uint64 `json:"floor"`
	Epoch   Epoch   `json:"epoch,omitempty"`
}

// Marshal encodes a floor.
func (f Floor) Marshal() []byte {
	b, err := json.Marshal(floor{RecordVersion, &f.Revision, f.Epoch})
	if err != nil { // integers always encode
		panic(err)
	}
	return b
}

// ParseFloor decodes a floor.
func ParseFloor(data []byte) (Floor, error) {
	var f floor
	if err := decodeStrict(data, &f); err != nil {
		return Floor{}, fmt.Errorf("decode floor: %w", err)
	}
	if f.Version != RecordVersion || f.Floor == nil {
		return Floor{}, errors.New("not a floor of this version")
	}
	return Floor{Revision: *f.Floor, Epoch: f.Epoch}, nil
}

// MarshalTombstone encodes a revocation at the given revision, as it stands
// under the key of a token.
func MarshalTombstone(revision uint64) []byte {
	b, err := json.Marshal(tombstone{RecordVersion, revision})
	if err != nil { // two integers always encode
		panic(err)
	}
	return b
}

// ParseTombstone returns the revision of a tombstone.
func ParseTombstone(data []byte) (uint64, error) {
	var t tombstone
	if err := decodeStrict(data, &t); err != nil {
		return 0, fmt.Errorf("decode tombstone: %w", err)
	}
	if t.Version != RecordVersion || t.Revoked == 0 {
		return 0, errors.New("not a tombstone of this version")
	}
	return t.Revoked, nil
}

// ParseRecord decodes and checks a record.
func ParseRecord(data []byte) (*Record, error) {
	if len(data) > MaxRecord {
		return nil, fmt.Errorf("record of %d bytes exceeds the limit of %d", len(data), MaxRecord)
	}
	var r Record
	if err := decodeStrict(data, &r); err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}
	switch {
	case r.Version != RecordVersion:
		return nil, fmt.Errorf("record version %d is not %d", r.Version, RecordVersion)
	case r.Credential.ID == "":
		return nil, errors.New("record has no credential")
	case r.Expires < 0 || r.Until < 0:
		return nil, errors.New("record expires before 1970")
	case r.Consumer != nil && r.Consumer.ID == "":
		return nil, errors.New("record has a consumer without id")
	case r.packedSize() > MaxPacked:
		return nil, fmt.Errorf("record packs to more than %d bytes", MaxPacked)
	}
	return &r, nil
}

// ParseEntry decodes what stands under a token key in Redis. It does not look at
// the signature of a record; see [Verify].
func ParseEntry(data []byte) (Entry, error) {
	if rev, err := ParseTombstone(data); err == nil {
		return Entry{Revoked: rev}, nil
	}
	r, err := ParseRecord(Unsigned(data))
	if err != nil {
		return Entry{}, err
	}
	return Entry{Record: r}, nil
}

// Clock is what the control plane writes under [RedisClockKey], after everything
// that it stands for.
type Clock struct {
	// Epoch that the control plane vouches for. A filter that knows another one
	// believes nothing in this Redis.
	Epoch Epoch `json:"epoch"`
	// Log and Position say how much of which log this Redis holds. A filter that
	// has applied more of the same log knows that this Redis has lost writes.
	Log      LogID    `json:"log"`
	Position Position `json:"position"`
	// Revision of the store when the clock was written. The control plane compares
	// it at its start: a store that is behind it has gone back.
	Revision uint64 `json:"revision"`
}

// Marshal encodes a clock.
func (c Clock) Marshal() []byte {
	b, err := json.Marshal(c)
	if err != nil { // two integers always encode
		panic(err)
	}
	return b
}

// ParseClock decodes a clock.
func ParseClock(data []byte) (Clock, error) {
	var c Clock
	if err := decodeStrict(data, &c); err != nil {
		return Clock{}, fmt.Errorf("decode clock: %w", err)
	}
	return c, nil
}

// ExpiresAt is the Expires of a token: it lives through the whole second in
// which created + expiresIn falls. expiresIn <= 0 means that it never expires.
// Source: requirement "Access token", expires_in; the boundary second is valid.
// What lies beyond the range of milliseconds becomes its end.
func ExpiresAt(created time.Time, expiresIn int64) int64 {
	if expiresIn <= 0 {
		return 0
	}
	if expiresIn > math.MaxInt64/1000-created.Unix()-1 {
		return math.MaxInt64
	}
	return (created.Unix() + expiresIn + 1) * 1000
}

// Field identifies one string of a packed record.
type Field uint8

// Fields of a packed record, in their order.
const (
	FieldService Field = iota
	FieldConsumerID
	FieldConsumerCustomID
	FieldConsumerUsername
	FieldClientID
	FieldScope
	FieldUserID
	// FieldKey is "k" in records of API keys and empty in others.
	FieldKey
	// NumFields is the number of packed fields.
	NumFields
)

// PackedHeader is the size of a packed record's table of lengths in bytes.
const PackedHeader = int(NumFields) * 2

// fields are the strings of the packed record. inGroup says that it is for a gateway of a
// group, where a service is told by its id and its control plane.
func (r *Record) fields(inGroup bool) [NumFields]string {
	var f [NumFields]string
	f[FieldService] = r.Service
	if inGroup && r.Service != "" && r.Plane != "" {
		f[FieldService] = BoundTo(r.Service, cmp.Or(r.ServicePlane, r.Plane))
	}
	if r.Consumer != nil {
		f[FieldConsumerID] = r.Consumer.ID
		f[FieldConsumerCustomID] = r.Consumer.CustomID
		f[FieldConsumerUsername] = r.Consumer.Username
	}
	f[FieldClientID] = r.Credential.ClientID
	f[FieldScope] = strings.ReplaceAll(r.Scope, " ", ",")
	f[FieldUserID] = r.UserID
	if r.Key {
		f[FieldKey] = "k"
	}
	return f
}

func (r *Record) packedSize() int {
	n := PackedHeader
	for _, s := range r.fields(true) {
		n += len(s)
	}
	return n
}

// Pack appends the form of the record that the hot path reads: the lengths of
// all fields as little-endian uint16, then their bytes. The scope is already
// comma-separated, as X-Authenticated-Scope shows it. Records that packed
// larger than [MaxPacked] do not pass [ParseRecord].
func (r *Record) Pack(dst []byte) []byte { return r.pack(dst, false) }

// PackFor is Pack for a gateway that accepts the credentials of some control planes. In a
// group the service is named as [BoundTo] does; records that name no control plane were
// judged by whoever has sent them.
func (r *Record) PackFor(of *Scopes, dst []byte) []byte { return r.pack(dst, of.IsGroup()) }

func (r *Record) pack(dst []byte, inGroup bool) []byte {
	f := r.fields(inGroup)
	for _, s := range f {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(s))) //nolint:gosec // bounded by MaxPacked
	}
	for _, s := range f {
		dst = append(dst, s...)
	}
	return dst
}

// Unpacked returns offset and length of every field in a packed record; ok is
// false if the bytes are not one.
func Unpacked(p []byte) (spans [NumFields]Span, ok bool) {
	if len(p) < PackedHeader {
		return spans, false
	}
	off := uint32(PackedHeader)
	for i := range spans {
		n := uint32(binary.LittleEndian.Uint16(p[i*2:]))
		spans[i] = Span{off, n}
		off += n
	}
	return spans, int(off) == len(p)
}

// Span is a part of a buffer.
type Span struct{ Off, Len uint32 }

// Answer is what a look-up says about a token.
type Answer uint8

const (
	// Miss says that nothing usable is cached here; ask further.
	Miss Answer = iota
	// Found says that the token is valid; its packed record was copied out.
	Found
	// Unknown says that an authority answered: there is no such token.
	Unknown
	// Unavailable says that no authority could be asked. The request must be refused
	// with 503, because the token may well be good.
	Unavailable
	// Expired is Unknown with a reason, which is told while it is known. Nobody but
	// logs may treat Unknown, Expired and Revoked differently.
	Expired
	// Revoked is Unknown with another reason.
	Revoked
)

// Rejects says whether an authority has answered that the token is not good.
func (a Answer) Rejects() bool { return a == Unknown || a == Expired || a == Revoked }
