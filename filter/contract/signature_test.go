package contract

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"strings"
	"testing"
)

func signer(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) RecordKey { return NewRecordKey(k.Public().(ed25519.PublicKey)) }

func TestSignedRecord(t *testing.T) {
	hash, key := HashToken([]byte("token")), signer(1)
	data, err := wholeRecord.Sign(hash, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify([]RecordKey{public(signer(2)), public(key)}, plane, hash, data); err != nil {
		t.Fatal(err)
	}
	e, err := ParseEntry(data)
	if err != nil || e.Record.Credential.ID != "credential" {
		t.Fatalf("%+v %v", e, err)
	}
}

// Nothing that somebody without the key can write is believed.
func TestForeignRecords(t *testing.T) {
	hash, key := HashToken([]byte("token")), signer(1)
	data, err := wholeRecord.Sign(hash, key)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := wholeRecord.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	own, err := wholeRecord.Sign(hash, signer(9))
	if err != nil {
		t.Fatal(err)
	}
	wide := strings.Replace(string(data), `"email phone"`, `"email admin"`, 1)
	renamed := strings.Replace(string(own), public(signer(9)).ID, public(key).ID, 1)
	keys := []RecordKey{public(key)}
	for name, tc := range map[string]struct {
		hash  Hash
		data  []byte
		keys  []RecordKey
		plane string
	}{
		"unsigned":                 {hash, plain, keys, ""},
		"of another key":           {hash, own, keys, ""},
		"that claims the key":      {hash, []byte(renamed), keys, ""},
		"under another token":      {HashToken([]byte("other")), data, keys, ""},
		"under an API key":         {HashKey([]byte("token")), data, keys, ""},
		"of another control plane": {hash, data, keys, "plane-2"},
		"changed":                  {hash, []byte(wide), keys, ""},
		"longer":                   {hash, append(bytes.Clone(data), ' '), keys, ""},
		"before the key is known":  {hash, data, []RecordKey{public(signer(2))}, ""},
		"without any key":          {hash, data, nil, ""},
		"a tombstone":              {hash, MarshalTombstone(4), keys, ""},
		"empty":                    {hash, nil, keys, ""},
		"only a head":              {hash, data[:signedHead], keys, ""},
		"with a wrong line":        {hash, bytes.Replace(data, []byte("\n"), []byte(" "), 1), keys, ""},
		"larger than any":          {hash, append(bytes.Clone(data), bytes.Repeat([]byte(" "), MaxRecord)...), keys, ""},
		"signature in upper case":  {hash, append([]byte(strings.ToUpper(string(data[:signedHead]))), data[signedHead:]...), keys, ""},
	} {
		if err := Verify(tc.keys, cmp.Or(tc.plane, plane), tc.hash, tc.data); err == nil {
			t.Errorf("a record %s is believed", name)
		}
	}
	for i := range data { // no bit of it is free
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if Verify(keys, plane, hash, changed) == nil {
			t.Fatalf("byte %d may be changed", i)
		}
	}
}

func TestRecordKeysAreChecked(t *testing.T) {
	good := public(signer(1))
	for name, keys := range map[string][]RecordKey{
		"another id": {{ID: "0011223344556677", Key: good.Key}},
		"short":      {{ID: good.ID, Key: good.Key[:31]}},
		"many":       make([]RecordKey, MaxRecordKeys+1),
	} {
		if checkRecordKeys(keys) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := checkRecordKeys([]RecordKey{good}); err != nil {
		t.Error(err)
	}
}

func BenchmarkVerify(b *testing.B) {
	hash, key := HashToken([]byte("token")), signer(1)
	data, err := wholeRecord.Sign(hash, key)
	if err != nil {
		b.Fatal(err)
	}
	keys := []RecordKey{public(key)}
	b.ReportAllocs()
	for b.Loop() {
		if Verify(keys, plane, hash, data) != nil {
			b.Fatal("not verified")
		}
	}
}

func BenchmarkSign(b *testing.B) {
	hash, key := HashToken([]byte("token")), signer(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wholeRecord.Sign(hash, key); err != nil {
			b.Fatal(err)
		}
	}
}
