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
	// the filter understands; [AcceptLevel2] is the only one.
	AcceptHeader = "Meshgate-Accept"
	AcceptLevel2 = "level2"
	// LinkVersion is offered in Hello; the server refuses versions it does not know.
	LinkVersion = 1
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
)

// FrameType tells frames apart.
type FrameType uint8

// Frames from the filter (F) and from the server (S).
const (
	FrameHello      FrameType = iota + 1 // F: first frame
	FrameWelcome                         // S: first frame
	FrameRenew                           // F: asks for a lease
	FrameGranted                         // S: lease given, counted from the Renew
	FrameInvalidate                      // S: revocations and replacements, in revision order
	FrameAck                             // F: everything up to a sequence number was applied
	FrameEpoch                           // S: Redis records of older epochs are void from now on
	FrameIntrospect                      // F: asks about one token hash
	FrameResult                          // S: answers an Introspect
	FrameBye                             // F: leaves in good order; the server forgets the filter
	FrameLevel2                          // S: where the second level is and which keys sign it; only if accepted
)

// Hello opens a link.
type Hello struct {
	Version int `json:"version"`
	// Instance is random per filter process, so that a restarted filter is told
	// apart from a half-open connection of its predecessor.
	Instance string `json:"instance"`
	// Revision is the newest revocation this process has applied; 0 at start.
	Revision uint64 `json:"revision"`
}

// Welcome answers a Hello. Between Welcome and the first Granted the server
// sends, as Invalidates, every live revocation newer than Hello.Revision.
type Welcome struct {
	Epoch uint64 `json:"epoch"`
	// Revision is the newest revocation at that moment.
	Revision uint64 `json:"revision"`
	// Floor is set when the revocations after Hello.Revision are no longer
	// known one by one: every record below that revision is void.
	Floor uint64 `json:"floor,omitempty"`
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
}

// Invalidate is a batch of invalidations; it must be acknowledged by its Seq
// after all of it has taken effect.
type Invalidate struct {
	Seq   uint64
	Items []Invalidation
}

// Epoch announces a new epoch of Redis; it is acknowledged like an Invalidate.
type Epoch struct {
	Seq   uint64 `json:"seq"`
	Epoch uint64 `json:"epoch"`
}

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
	// Answer is Found, Unknown or Unavailable.
	Answer Answer
	// Revision that the store was read at; it orders Unknown against
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

// EncodeJSON encodes the rare messages: Hello, Welcome, Epoch.
func EncodeJSON(v any) ([]byte, error) { return json.Marshal(v) }

// DecodeJSON decodes what [EncodeJSON] wrote, strictly.
func DecodeJSON(body []byte, into any) error { return decodeStrict(body, into) }

// EncodeNumber encodes the one number of Renew, Granted (both: the number of
// the Renew) and Ack (the sequence number).
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
	b := binary.BigEndian.AppendUint64(nil, m.Seq)
	for i := range m.Items {
		it := &m.Items[i]
		b = binary.BigEndian.AppendUint64(append(b, byte(it.Subject)), it.Revision)
		if it.Subject == SubjectToken {
			b = append(b, it.Token[:]...)
			continue
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(it.ID))) //nolint:gosec // ids are uuids
		b = append(b, it.ID...)
	}
	return b
}

// DecodeInvalidate decodes a FrameInvalidate.
func DecodeInvalidate(b []byte) (*Invalidate, error) {
	if len(b) < 8 {
		return nil, errShort
	}
	m := &Invalidate{Seq: binary.BigEndian.Uint64(b)}
	for b = b[8:]; len(b) > 0; {
		if len(b) < 9 {
			return nil, errShort
		}
		it := Invalidation{Subject: Subject(b[0]), Revision: binary.BigEndian.Uint64(b[1:])}
		b = b[9:]
		switch it.Subject {
		case SubjectToken:
			if len(b) < len(it.Token) {
				return nil, errShort
			}
			b = b[copy(it.Token[:], b):]
		case SubjectCredential, SubjectConsumer:
			if len(b) < 2 {
				return nil, errShort
			}
			n := int(binary.BigEndian.Uint16(b))
			if len(b) < 2+n {
				return nil, errShort
			}
			it.ID, b = string(b[2:2+n]), b[2+n:]
		default:
			return nil, fmt.Errorf("unknown subject %d", it.Subject)
		}
		m.Items = append(m.Items, it)
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
	case m.Answer != Found && m.Answer != Unknown && m.Answer != Unavailable, (m.Answer == Found) != (len(b) > 17):
		return nil, fmt.Errorf("answer %d does not fit its record", m.Answer)
	case m.Answer != Found:
		return m, nil
	}
	var err error
	m.Record, err = ParseRecord(b[17:])
	return m, err
}
