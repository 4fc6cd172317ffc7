package contract

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The freshness link is one connection per filter: an HTTP/1.1 request
// "GET /link" over TLS to the data-plane server with "Upgrade: meshgate-link"
// "Meshgate-Node: <node id>" and "Authorization: Bearer <node token>", answered 101, after which both sides
// write frames: uint32 big-endian length of what follows, one type byte, body.
// Bodies are JSON but for the high-volume messages, which are fixed binary.
const (
	LinkPath     = "/link"
	LinkProtocol = "meshgate-link"
	// NodeHeader names the node, since the token of a proxy may be good for several.
	NodeHeader = "Meshgate-Node"
	// AcceptHeader of the upgrade lists frames, beyond those of LinkVersion, that
	// the filter understands, each in a line of its own.
	AcceptHeader = "Meshgate-Accept"
	AcceptLevel2 = "level2"
	// AcceptReasons says that the filter knows [Expired] and [Revoked].
	AcceptReasons = "reasons"
	// AcceptScopes says that the filter understands [FrameScopes], [Welcome].Scopes and
	// [Record].Plane.
	AcceptScopes = "scopes"
	// AcceptPlanes says that the filter understands [Invalidation].Plane.
	AcceptPlanes = "planes"
	// LinkVersion is offered in Hello; the server refuses versions it does not know.
	LinkVersion = 3
	// MaxFrame bounds a frame's length in bytes.
	MaxFrame = 1 << 20
)

// Lease timing. All spans are measured on monotonic clocks of one side only,
// so clocks need not agree; LeaseMargin absorbs a difference of their rates.
const (
	// Lease is how long the server counts a filter as able to answer from its
	// first level after it received a Renew.
	Lease = 3 * time.Second
	// LeaseMargin is subtracted by the filter, which counts from the moment it
	// sent the Renew.
	LeaseMargin = 300 * time.Millisecond
	// RenewEvery is the pause between two Renews.
	RenewEvery = 750 * time.Millisecond
	// ClockTolerance is how far the filter's wall clock and monotonic clock may
	// move apart while it holds a lease. Beyond it the host has slept, or the time
	// was set, and the lease is gone until the next grant. It is smaller than
	// LeaseMargin, so a nap that is not noticed ends no lease too late.
	ClockTolerance = 100 * time.Millisecond
)

// Spans for which a filter and the control plane remember each other.
const (
	// RememberFilter is how long the control plane counts a filter that it does not
	// see as one that may still read Redis.
	RememberFilter = 24 * time.Hour
	// TrustFor is how long after its last lease a filter believes Redis. It is
	// shorter than RememberFilter, so no filter is forgotten that still does.
	TrustFor = 22 * time.Hour
	// LeaseAhead is how far the wall clock of a filter may be behind its last lease. Set
	// back further it cannot say how old that lease is. Together with TrustFor it stays
	// below RememberFilter.
	LeaseAhead = time.Hour
)

// LogID names a log: everything that one process of the control plane has
// published. It is drawn at random when the process starts.
type LogID string

// Position is a place in one log, counted from 1. What a filter has applied is
// everything up to a position, without a gap. A position means nothing in another
// log, and it is no revision of the store.
type Position uint64

// Epoch names the records in Redis that may be believed; see [Trust]. It is drawn
// at random, so neither a store nor a Redis that goes back can meet one again by
// counting. 0 is none.
type Epoch uint64

// Trust is what the control plane vouches for in Redis.
type Trust struct {
	// Epoch that records and the clock must have; 0 says that nothing in Redis may
	// be believed.
	Epoch Epoch `json:"epoch"`
	// Servers are the identities of the primaries that the control plane writes to:
	// their run ids with the ids of what they replicate.
	// With an epoch and without servers these do not tell who they are: Redis is
	// believed only while the link is up.
	Servers []string `json:"servers,omitempty"`
}

// MaxServers bounds [Trust].Servers.
const MaxServers = 256

// FrameType tells frames apart.
type FrameType uint8

// Frames from the filter (F) and from the server (S).
const (
	FrameHello      FrameType = iota + 1 // F: first frame
	FrameWelcome                         // S: first frame
	FrameRenew                           // F: asks for a lease
	FrameGranted                         // S: lease given, counted from the Renew
	FrameInvalidate                      // S: revocations and replacements, in the order of the log
	FrameAck                             // F: what was applied, and what of it is on disk
	FrameTrust                           // S: what may be believed in Redis from now on
	FrameIntrospect                      // F: asks about one token hash
	FrameResult                          // S: answers an Introspect
	FrameBye                             // F: leaves in good order; the server forgets the filter
	FrameLevel2                          // S: where the second level is and which keys sign it; only if accepted
	FrameInUse                           // F: tokens whose records Redis should hold
	FrameRefilled                        // S: an InUse was dealt with
	FrameScopes                          // S: whose credentials the gateway accepts from now on; only if accepted
)

// Hello opens a link.
type Hello struct {
	Version int `json:"version"`
	// Instance is random per filter process, so that a restarted filter is told
	// apart from a half-open connection of its predecessor. It begins with the
	// name that the agent gave the process, if there is one ([ProcessEnv]).
	Instance string `json:"instance"`
	// Log is the log that the filter follows, empty at its start, and Applied the
	// position up to which it has applied it.
	Log     LogID    `json:"log,omitempty"`
	Applied Position `json:"applied,omitempty"`
}

// Welcome answers a Hello. Between Welcome and the first Granted the server
// sends, as Invalidates, everything after From that still matters.
//
// A filter that follows another log, or has not applied exactly From, starts
// anew: it gives up its lease and forgets its records and floors before it reads on.
type Welcome struct {
	Log  LogID    `json:"log"`
	From Position `json:"from"`
	// Floor is set when a filter that starts anew cannot be told all that still
	// matters: every record below that revision is void.
	Floor uint64 `json:"floor,omitempty"`
	Trust Trust  `json:"trust"`
	// Scopes is whose credentials the gateway accepts; nil if the filter has not said that
	// it understands that. When they change, [FrameScopes] with a Scopes comes before the
	// Invalidate whose acknowledgement says that this has taken effect, too.
	Scopes *Scopes `json:"scopes,omitempty"`
}

// Subject says what an invalidation is about.
type Subject uint8

// Subjects of an invalidation.
const (
	SubjectToken Subject = iota + 1
	SubjectCredential
	SubjectConsumer
)

// Invalidation voids every record of one subject below Revision.
type Invalidation struct {
	Subject  Subject
	Revision uint64
	// Token is set for SubjectToken.
	Token Hash
	// ID is set for SubjectCredential and SubjectConsumer.
	ID string
	// Plane is the control plane of a credential or consumer. If it is empty, whatever has
	// the id is meant, in every control plane: filters without [AcceptPlanes] are told no
	// more. A token has none: the memory of a filter has one record of a value.
	Plane string
}

// named is set beside the subject of an item that names its control plane.
const named = 0x80

// Invalidate brings a filter from one position of the log to another: Items are
// everything between them that still matters. To is acknowledged as applied after
// all of it has taken effect. A filter that has not applied exactly From must not
// apply it, and ends the link.
type Invalidate struct {
	From, To Position
	Items    []Invalidation
}

// TrustChange takes the position At, which must follow what was applied. It is
// acknowledged as applied after it is in force, and as durable after it is on disk.
type TrustChange struct {
	At    Position `json:"at"`
	Trust Trust    `json:"trust"`
}

// Ack says how far a filter is, in its memory and on its disk. The disk may take
// its time: what matters for the memory is not held up by it.
type Ack struct {
	// Applied means that everything up to it has taken effect.
	Applied Position
	// Durable is not beyond Applied. It means that a filter which starts with this
	// one's files believes the last trust up to there, a later one or none. The trust
	// of the Welcome counts as given before everything that follows. 0 means nothing.
	Durable Position
}

// Encode returns the body of a FrameAck.
func (a Ack) Encode() []byte {
	return binary.BigEndian.AppendUint64(EncodeNumber(uint64(a.Applied)), uint64(a.Durable))
}

// DecodeAck decodes a FrameAck.
func DecodeAck(b []byte) (Ack, error) {
	if len(b) != 16 {
		return Ack{}, errShort
	}
	a := Ack{Position(binary.BigEndian.Uint64(b)), Position(binary.BigEndian.Uint64(b[8:]))}
	if a.Durable > a.Applied {
		return Ack{}, fmt.Errorf("position %d is on disk and only %d applied", a.Durable, a.Applied)
	}
	return a, nil
}

// InUse lists tokens that a filter holds in its memory, so that Redis is filled
// again although nobody misses them there. One batch is under way at a time.
type InUse struct {
	Number uint64
	Tokens []Hash
}

// MaxInUse bounds the tokens of one InUse.
const MaxInUse = 256

// Introspect asks what the control plane knows about a token. The answer is
// given only if the node's configuration contains the plugin.
type Introspect struct {
	ID     uint64
	Token  Hash
	Plugin string
}

// Result answers an Introspect.
type Result struct {
	ID uint64
	// Answer is anything but Miss; Expired and Revoked only for who accepts them.
	Answer Answer
	// Revision that the store was read at; it orders what is no Found against
	// invalidations.
	Revision uint64
	// Record is set if Answer is Found.
	Record *Record
}

// WriteFrame writes one frame. Callers serialise writes and set deadlines.
func WriteFrame(w io.Writer, t FrameType, body []byte) error {
	if len(body)+1 > MaxFrame {
		return fmt.Errorf("frame of %d bytes exceeds the limit", len(body))
	}
	buf := make([]byte, 0, len(body)+5)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(body)+1)) //nolint:gosec // bounded above
	buf = append(buf, byte(t))
	_, err := w.Write(append(buf, body...))
	return err
}

// ReadFrame reads one frame. The body is valid until the caller drops it.
func ReadFrame(r io.Reader) (FrameType, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[:4])
	if n == 0 || n > MaxFrame {
		return 0, nil, fmt.Errorf("frame length %d is out of range", n)
	}
	body := make([]byte, n-1)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return FrameType(head[4]), body, nil
}

// EncodeJSON encodes the rare messages: Hello, Welcome, TrustChange, Scopes, Level2.
func EncodeJSON(v any) ([]byte, error) { return json.Marshal(v) }

// DecodeJSON decodes what [EncodeJSON] wrote, strictly.
func DecodeJSON(body []byte, into any) error { return decodeStrict(body, into) }

// EncodeNumber encodes the one number of Renew, Granted (both: the number of
// the Renew) and Refilled (the number of the InUse).
func EncodeNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// DecodeNumber decodes what [EncodeNumber] wrote.
func DecodeNumber(body []byte) (uint64, error) {
	if len(body) != 8 {
		return 0, errShort
	}
	return binary.BigEndian.Uint64(body), nil
}

var errShort = errors.New("message has the wrong length")

// Encode returns the body of a FrameInvalidate.
func (m *Invalidate) Encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(m.From))
	b = binary.BigEndian.AppendUint64(b, uint64(m.To))
	for i := range m.Items {
		it := &m.Items[i]
		subject := byte(it.Subject)
		if it.Plane != "" && it.Subject != SubjectToken {
			subject |= named
		}
		b = binary.BigEndian.AppendUint64(append(b, subject), it.Revision)
		if it.Subject == SubjectToken {
			b = append(b, it.Token[:]...)
			continue
		}
		if b = appendText(b, it.ID); it.Plane != "" {
			b = appendText(b, it.Plane)
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...) //nolint:gosec // ids and names are short
}

// cutText takes a text from the beginning of b.
func cutText(b []byte) (s string, rest []byte, err error) {
	if len(b) < 2 {
		return "", nil, errShort
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < n {
		return "", nil, errShort
	}
	return string(b[2:n]), b[n:], nil
}

// DecodeInvalidate decodes a FrameInvalidate.
func DecodeInvalidate(b []byte) (*Invalidate, error) {
	if len(b) < 16 {
		return nil, errShort
	}
	m := &Invalidate{From: Position(binary.BigEndian.Uint64(b)), To: Position(binary.BigEndian.Uint64(b[8:]))}
	if m.To < m.From {
		return nil, fmt.Errorf("positions %d to %d run backwards", m.From, m.To)
	}
	for b = b[16:]; len(b) > 0; {
		if len(b) < 9 {
			return nil, errShort
		}
		it := Invalidation{Subject: Subject(b[0]), Revision: binary.BigEndian.Uint64(b[1:])}
		b = b[9:]
		var err error
		switch it.Subject {
		case SubjectToken:
			if len(b) < len(it.Token) {
				return nil, errShort
			}
			b = b[copy(it.Token[:], b):]
		case SubjectCredential, SubjectConsumer:
			it.ID, b, err = cutText(b)
		case SubjectCredential | named, SubjectConsumer | named:
			it.Subject &^= named
			if it.ID, b, err = cutText(b); err == nil {
				it.Plane, b, err = cutText(b)
			}
			if err == nil && it.Plane == "" {
				err = errors.New("a control plane without a name")
			}
		default:
			err = fmt.Errorf("unknown subject %d", it.Subject)
		}
		if err != nil {
			return nil, err
		}
		m.Items = append(m.Items, it)
	}
	return m, nil
}

// Encode returns the body of a FrameInUse.
func (m *InUse) Encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(m.Tokens)*len(Hash{})), m.Number)
	for i := range m.Tokens {
		b = append(b, m.Tokens[i][:]...)
	}
	return b
}

// DecodeInUse decodes a FrameInUse.
func DecodeInUse(b []byte) (*InUse, error) {
	const size = len(Hash{})
	if len(b) < 8 || (len(b)-8)%size != 0 || (len(b)-8)/size > MaxInUse {
		return nil, errShort
	}
	m := &InUse{Number: binary.BigEndian.Uint64(b), Tokens: make([]Hash, (len(b)-8)/size)}
	for i := range m.Tokens {
		copy(m.Tokens[i][:], b[8+i*size:])
	}
	return m, nil
}

// Encode returns the body of a FrameIntrospect.
func (m *Introspect) Encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, m.ID)
	b = append(b, m.Token[:]...)
	return append(b, m.Plugin...)
}

// DecodeIntrospect decodes a FrameIntrospect.
func DecodeIntrospect(b []byte) (*Introspect, error) {
	m := &Introspect{}
	if len(b) < 8+len(m.Token) {
		return nil, errShort
	}
	m.ID = binary.BigEndian.Uint64(b)
	n := copy(m.Token[:], b[8:])
	m.Plugin = string(b[8+n:])
	return m, nil
}

// Encode returns the body of a FrameResult.
func (m *Result) Encode() ([]byte, error) {
	b := binary.BigEndian.AppendUint64(nil, m.ID)
	b = binary.BigEndian.AppendUint64(append(b, byte(m.Answer)), m.Revision)
	if m.Record == nil {
		return b, nil
	}
	r, err := m.Record.Marshal()
	return append(b, r...), err
}

// DecodeResult decodes a FrameResult.
func DecodeResult(b []byte) (*Result, error) {
	if len(b) < 17 {
		return nil, errShort
	}
	m := &Result{ID: binary.BigEndian.Uint64(b), Answer: Answer(b[8]), Revision: binary.BigEndian.Uint64(b[9:])}
	switch {
	case m.Answer != Found && !m.Answer.Rejects() && m.Answer != Unavailable, (m.Answer == Found) != (len(b) > 17):
		return nil, fmt.Errorf("answer %d does not fit its record", m.Answer)
	case m.Answer != Found:
		return m, nil
	}
	var err error
	m.Record, err = ParseRecord(b[17:])
	return m, err
}
