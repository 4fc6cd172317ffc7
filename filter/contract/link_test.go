package contract

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

var wholeInvalidate = Invalidate{From: 7, To: 9, Items: []Invalidation{
	{Subject: SubjectToken, Revision: 1, Token: HashToken([]byte("t"))},
	{Subject: SubjectCredential, Revision: 2, ID: "credential"},
	{Subject: SubjectConsumer, Revision: math.MaxUint64, ID: ""},
	{Subject: SubjectCredential, Revision: 3, ID: "credential", Plane: "plane"},
	{Subject: SubjectConsumer, Revision: 4, ID: "consumer", Plane: "p"},
}}

func TestFramesOverASlowStream(t *testing.T) {
	type frame struct {
		Type FrameType
		Body []byte
	}
	sent := []frame{{FrameRenew, EncodeNumber(7)}, {FrameBye, []byte{}}, {FrameInvalidate, wholeInvalidate.Encode()}, {FrameResult, make([]byte, MaxFrame-1)}}
	var wire bytes.Buffer
	for _, f := range sent {
		if err := WriteFrame(&wire, f.Type, f.Body); err != nil {
			t.Fatal(err)
		}
	}
	r := iotest.OneByteReader(&wire)
	for _, want := range sent {
		typ, body, err := ReadFrame(r)
		if err != nil || typ != want.Type || !bytes.Equal(body, want.Body) {
			t.Fatalf("got type %d with %d bytes, %v, want type %d with %d bytes", typ, len(body), err, want.Type, len(want.Body))
		}
	}
	if _, _, err := ReadFrame(r); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame: %v, want EOF", err)
	}
}

func TestFrameLimits(t *testing.T) {
	if err := WriteFrame(io.Discard, FrameResult, make([]byte, MaxFrame)); err == nil {
		t.Error("a frame beyond the limit was written")
	}
	for _, n := range []uint32{0, MaxFrame + 1, math.MaxUint32} {
		if _, _, err := ReadFrame(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, n), 1))); err == nil {
			t.Errorf("a frame of length %d was read", n)
		}
	}
	cut := append(binary.BigEndian.AppendUint32(nil, 9), byte(FrameAck), 1, 2)
	if _, _, err := ReadFrame(bytes.NewReader(cut)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a frame cut short: %v", err)
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	inv, err := DecodeInvalidate(wholeInvalidate.Encode())
	if d := cmp.Diff(&wholeInvalidate, inv); err != nil || d != "" {
		t.Errorf("invalidate: %v\n%s", err, d)
	}
	ask := &Introspect{ID: 5, Token: HashToken([]byte("t")), Plugin: "p"}
	gotAsk, err := DecodeIntrospect(ask.Encode())
	if d := cmp.Diff(ask, gotAsk); err != nil || d != "" {
		t.Errorf("introspect: %v\n%s", err, d)
	}
	for _, want := range []*Result{
		{ID: 1, Answer: Found, Revision: 2, Record: &wholeRecord}, {ID: 2, Answer: Unknown, Revision: 3}, {ID: 3, Answer: Unavailable},
	} {
		b, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeResult(b)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("result: %v\n%s", err, d)
		}
	}
	use := &InUse{Number: 3, Tokens: []Hash{HashToken([]byte("t")), HashToken([]byte("u"))}}
	gotUse, err := DecodeInUse(use.Encode())
	if d := cmp.Diff(use, gotUse); err != nil || d != "" {
		t.Errorf("in use: %v\n%s", err, d)
	}
	want := Welcome{Log: "l", From: 2, Floor: 3, Trust: Trust{Epoch: math.MaxUint64, Servers: []string{"a", "b"}}}
	b, err := EncodeJSON(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Welcome
	if err := DecodeJSON(b, &got); err != nil || !cmp.Equal(got, want) {
		t.Errorf("welcome: %+v, %v", got, err)
	}
	if err := DecodeJSON([]byte(`{"log":"l","x":2}`), &got); err == nil {
		t.Error("a message with an unknown field was decoded")
	}
}

func TestDecodeRefuses(t *testing.T) {
	token := wholeInvalidate.Encode()[:16+9+32]
	whole, err := (&Result{Answer: Found, Record: &wholeRecord}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	result := func(a Answer, tail ...byte) []byte {
		return append(append(make([]byte, 8), byte(a)), append(make([]byte, 8), tail...)...)
	}
	invalidate := func(b []byte) error { _, err := DecodeInvalidate(b); return err }
	introspect := func(b []byte) error { _, err := DecodeIntrospect(b); return err }
	answer := func(b []byte) error { _, err := DecodeResult(b); return err }
	inUse := func(b []byte) error { _, err := DecodeInUse(b); return err }
	number := func(b []byte) error { _, err := DecodeNumber(b); return err }
	ack := func(b []byte) error { _, err := DecodeAck(b); return err }
	for name, tc := range map[string]struct {
		decode func([]byte) error
		in     []byte
	}{
		"invalidate without positions":  {invalidate, token[:15]},
		"invalidate backwards":          {invalidate, append(binary.BigEndian.AppendUint64(nil, 1), make([]byte, 8)...)},
		"invalidate cut in item":        {invalidate, token[:16+5]},
		"invalidate cut in hash":        {invalidate, token[:16+9+31]},
		"invalidate unknown subject":    {invalidate, append(make([]byte, 16), 9, 0, 0, 0, 0, 0, 0, 0, 1)},
		"invalidate id without length":  {invalidate, append(make([]byte, 16), 2, 0, 0, 0, 0, 0, 0, 0, 1, 0)},
		"invalidate id cut short":       {invalidate, append(make([]byte, 16), 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 'x')},
		"invalidate a token of a plane": {invalidate, append(make([]byte, 16), append([]byte{0x81, 0, 0, 0, 0, 0, 0, 0, 1}, make([]byte, 36)...)...)},
		"invalidate without the plane":  {invalidate, append(make([]byte, 16), 0x82, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 'x')},
		"invalidate of no plane":        {invalidate, append(make([]byte, 16), 0x82, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 'x', 0, 0)},
		"invalidate plane cut short":    {invalidate, append(make([]byte, 16), 0x83, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 'x', 0, 2, 'p')},
		"introspect cut short":          {introspect, make([]byte, 39)},
		"result cut short":              {answer, whole[:16]},
		"result cut in record":          {answer, whole[:len(whole)-1]},
		"result found without record":   {answer, result(Found)},
		"result unknown with record":    {answer, result(Unknown, whole[17:]...)},
		"result miss":                   {answer, result(Miss)},
		"result of no answer":           {answer, result(9)},
		"ack of one number":             {ack, EncodeNumber(1)},
		"ack of more on disk":           {ack, Ack{Applied: 1, Durable: 2}.Encode()},
		"in use cut short":              {inUse, make([]byte, 8+31)},
		"in use without number":         {inUse, make([]byte, 7)},
		"in use too many":               {inUse, make([]byte, 8+32*(MaxInUse+1))},
		"number too short":              {number, make([]byte, 7)},
		"number too long":               {number, make([]byte, 9)},
	} {
		if tc.decode(tc.in) == nil {
			t.Errorf("%s: decoded", name)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	var wire bytes.Buffer
	if err := WriteFrame(&wire, FrameInvalidate, wholeInvalidate.Encode()); err != nil {
		f.Fatal(err)
	}
	f.Add(wire.Bytes())
	f.Add([]byte{0, 0, 0, 1, 10})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		typ, body, err := ReadFrame(bytes.NewReader(in))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteFrame(&out, typ, body); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(in, out.Bytes()) {
			t.Errorf("read %x, wrote %x", in, out.Bytes())
		}
	})
}

// FuzzDecodeMessages feeds one body to every decoder. Binary messages have only one
// encoding, so a decoded message must encode to the same bytes.
func FuzzDecodeMessages(f *testing.F) {
	f.Add(wholeInvalidate.Encode())
	f.Add((&Introspect{ID: 1, Plugin: "p"}).Encode())
	b, err := (&Result{Answer: Found, Record: &wholeRecord}).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(EncodeNumber(1))
	f.Add(Ack{Applied: 2, Durable: 1}.Encode())
	f.Add((&InUse{Number: 1, Tokens: make([]Hash, 2)}).Encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		if m, err := DecodeInvalidate(in); err == nil && !bytes.Equal(m.Encode(), in) {
			t.Errorf("invalidate %x became %x", in, m.Encode())
		}
		if m, err := DecodeIntrospect(in); err == nil && !bytes.Equal(m.Encode(), in) {
			t.Errorf("introspect %x became %x", in, m.Encode())
		}
		if n, err := DecodeNumber(in); err == nil && !bytes.Equal(EncodeNumber(n), in) {
			t.Errorf("number %x became %d", in, n)
		}
		if a, err := DecodeAck(in); err == nil && (!bytes.Equal(a.Encode(), in) || a.Durable > a.Applied) {
			t.Errorf("ack %x became %+v", in, a)
		}
		if m, err := DecodeInUse(in); err == nil && !bytes.Equal(m.Encode(), in) {
			t.Errorf("in use %x became %x", in, m.Encode())
		}
		m, err := DecodeResult(in)
		if err != nil {
			return
		}
		if (m.Answer == Found) != (m.Record != nil) {
			t.Fatalf("%+v", m)
		}
		out, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > 17+MaxRecord { // escapes may make it longer
			return
		}
		again, err := DecodeResult(out)
		if d := cmp.Diff(m, again); err != nil || d != "" {
			t.Errorf("result %v (-first +second):\n%s", err, d)
		}
	})
}
