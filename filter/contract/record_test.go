package contract

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const plane = "plane-1"

var wholeRecord = Record{
	Version: RecordVersion, Epoch: 2, Revision: 3, Expires: 4000, Plane: plane, Service: "service", ServicePlane: "plane-2", Scope: "email phone", UserID: "user",
	Credential: Credential{ID: "credential", ClientID: "client"},
	Consumer:   &Consumer{ID: "consumer", Username: "bob", CustomID: "c-1"},
}

func TestRecordRoundTrip(t *testing.T) {
	b, err := wholeRecord.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseEntry(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Entry{Record: &wholeRecord}, got); d != "" {
		t.Errorf("(-sent +parsed):\n%s", d)
	}
}

func TestTombstoneRoundTrip(t *testing.T) {
	b := MarshalTombstone(math.MaxUint64)
	got, err := ParseEntry(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Entry{Revoked: math.MaxUint64}, got); d != "" {
		t.Errorf("(-sent +parsed):\n%s", d)
	}
	for _, in := range []string{"", "null", "{}", `{"v":1}`, `{"v":1,"revoked":0}`, `{"v":2,"revoked":1}`, `{"v":1,"revoked":-1}`, string(b) + "1"} {
		if rev, err := ParseTombstone([]byte(in)); err == nil {
			t.Errorf("%q is a tombstone of revision %d", in, rev)
		}
	}
}

func TestParseRecordRefuses(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"older version":          func(r *Record) { r.Version = 0 },
		"newer version":          func(r *Record) { r.Version++ },
		"no credential":          func(r *Record) { r.Credential.ID = "" },
		"consumer without id":    func(r *Record) { r.Consumer = &Consumer{Username: "bob"} },
		"expiry before 1970":     func(r *Record) { r.Expires = -1 },
		"packs too long":         func(r *Record) { r.UserID = strings.Repeat("u", MaxPacked) },
		"longer than any record": func(r *Record) { r.Credential.ID = strings.Repeat("i", MaxRecord) },
	} {
		r := wholeRecord
		change(&r)
		b, err := r.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseRecord(b); err == nil {
			t.Errorf("%s: parsed", name)
		}
	}
	for _, in := range []string{"", "null", "{}", `{"v":1,"revision":1,"credential":{"id":"c"},"unheard_of":1}`} {
		if _, err := ParseRecord([]byte(in)); err == nil {
			t.Errorf("%q parsed", in)
		}
	}
}

func TestLongestRecordFitsExactly(t *testing.T) {
	r := Record{Version: RecordVersion, Credential: Credential{ID: "c"}, UserID: strings.Repeat("u", MaxPacked-PackedHeader)}
	b, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Pack(nil)); n != MaxPacked {
		t.Errorf("packed into %d bytes, want %d", n, MaxPacked)
	}
}

func TestPack(t *testing.T) {
	want := [NumFields]string{
		FieldService: "service", FieldConsumerID: "consumer", FieldConsumerCustomID: "c-1", FieldConsumerUsername: "bob",
		FieldClientID: "client", FieldScope: "email,phone", FieldUserID: "user",
	}
	if d := cmp.Diff(want, unpack(t, wholeRecord.Pack(nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	external := wholeRecord
	external.Consumer = nil
	want[FieldConsumerID], want[FieldConsumerCustomID], want[FieldConsumerUsername] = "", "", ""
	if d := cmp.Diff(want, unpack(t, external.Pack(nil))); d != "" {
		t.Errorf("without a consumer (-want +got):\n%s", d)
	}
	if got := string(wholeRecord.Pack([]byte("before"))[:6]); got != "before" {
		t.Errorf("Pack overwrote what it should append to: %q", got)
	}
}

func unpack(t *testing.T, p []byte) (fields [NumFields]string) {
	t.Helper()
	spans, ok := Unpacked(p)
	if !ok {
		t.Fatalf("%q is not a packed record", p)
	}
	for i, s := range spans {
		fields[i] = string(p[s.Off : s.Off+s.Len])
	}
	return fields
}

func TestFloorRoundTrip(t *testing.T) {
	for _, want := range []Floor{{}, {7, 0}, {0, 7}, {math.MaxUint64, math.MaxUint64}} {
		if got, err := ParseFloor(want.Marshal()); err != nil || got != want {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
	}
	for _, in := range []string{"", "1", `{"v":1}`, `{"v":2,"floor":0}`, `{"v":1,"floor":-1}`, `{"v":1,"floor":0,"x":1}`, `{"v":1,"epoch":7}`, string(MarshalTombstone(3))} {
		if floor, err := ParseFloor([]byte(in)); err == nil {
			t.Errorf("%q is a floor: %+v", in, floor)
		}
	}
}

func FuzzUnpacked(f *testing.F) {
	f.Add(wholeRecord.Pack(nil))
	f.Add([]byte{})
	f.Add(make([]byte, PackedHeader))
	f.Add(binary.LittleEndian.AppendUint16(nil, math.MaxUint16))
	f.Fuzz(func(t *testing.T, p []byte) {
		spans, ok := Unpacked(p)
		if !ok {
			return
		}
		at := uint32(PackedHeader)
		for i, s := range spans {
			if s.Off != at || int(s.Off+s.Len) > len(p) {
				t.Fatalf("field %d lies at %+v of %d bytes, want offset %d", i, s, len(p), at)
			}
			at += s.Len
		}
		if int(at) != len(p) {
			t.Errorf("fields end at %d of %d", at, len(p))
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	b, err := wholeRecord.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(MarshalTombstone(7))
	f.Add([]byte(`{"v":1,"revision":1,"credential":{"id":"c"},"consumer":null}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		e, err := ParseEntry(in)
		if err != nil {
			return
		}
		if (e.Record == nil) == (e.Revoked == 0) {
			t.Fatalf("%+v must be a record or a tombstone", e)
		}
		if e.Record == nil {
			if rev, err := ParseTombstone(MarshalTombstone(e.Revoked)); err != nil || rev != e.Revoked {
				t.Errorf("tombstone of %d became %d, %v", e.Revoked, rev, err)
			}
			return
		}
		packed := e.Record.Pack(nil)
		if len(packed) > MaxPacked || unpack(t, packed) != e.Record.fields(false) {
			t.Errorf("record packs to %q", packed)
		}
		out, err := e.Record.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > MaxRecord { // escapes may make it longer
			return
		}
		again, err := ParseRecord(out)
		if d := cmp.Diff(e.Record, again); err != nil || d != "" {
			t.Errorf("%v (-first +second):\n%s", err, d)
		}
	})
}

func TestExpiresAt(t *testing.T) {
	created := time.UnixMilli(1_000_999)
	for in, want := range map[int64]int64{
		-1: 0, 0: 0,
		1: 1_002_000, // lives through the whole second 1001
		// Too far away for milliseconds: later than any clock, and not wrapped.
		math.MaxInt64: math.MaxInt64, math.MaxInt64/1000 - 1000: math.MaxInt64,
		math.MaxInt64/1000 - 1001: (math.MaxInt64 / 1000) * 1000,
	} {
		if got := ExpiresAt(created, in); got != want {
			t.Errorf("ExpiresAt(%d) = %d, want %d", in, got, want)
		}
	}
}

func TestClockRoundTrip(t *testing.T) {
	want := Clock{Epoch: math.MaxUint64, Log: "l", Position: 5, Revision: math.MaxUint64}
	got, err := ParseClock(want.Marshal())
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, in := range []string{"", "1", `{"epoch":-1}`, `{"epoch":1,"revision":1,"x":1}`, string(want.Marshal()) + "{}"} {
		if c, err := ParseClock([]byte(in)); err == nil {
			t.Errorf("%q is a clock: %+v", in, c)
		}
	}
}

func TestRedisKeysHideTokens(t *testing.T) {
	const want = "meshgate:token:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	if got := RedisRecordKey("", HashToken([]byte("hello"))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if a, b := RedisCredentialKey("", "x"), RedisConsumerKey("", "x"); a != "meshgate:credential:x" || b != "meshgate:consumer:x" {
		t.Errorf("got %s and %s", a, b)
	}
}
