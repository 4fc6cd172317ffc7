package pemtext_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/xds/pemtext"
)

// made returns a certificate in DER, and its key.
func made(t *testing.T, serial int64) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// TestMixedText reads a text in which a key, words and something unreadable stand between two
// certificates: no reader takes them for certificates, and none stops at them.
func TestMixedText(t *testing.T) {
	one, private := made(t, 1)
	two, _ := made(t, 2)
	key, err := pemtext.Key(private)
	if err != nil {
		t.Fatal(err)
	}
	text := slices.Concat([]byte("# first\n"), pemtext.Certificate(one), key, []byte("words\n"),
		pemtext.Certificate([]byte("unreadable")), pemtext.Certificate(two))

	var kinds []string
	for block := range pemtext.Blocks(text) {
		kinds = append(kinds, block.Type)
	}
	if want := []string{"CERTIFICATE", "PRIVATE KEY", "CERTIFICATE", "CERTIFICATE"}; !slices.Equal(kinds, want) {
		t.Errorf("blocks %q, want %q", kinds, want)
	}
	list := pemtext.Parsed(text)
	if len(list) != 2 || !bytes.Equal(list[0].Raw, one) || !bytes.Equal(list[1].Raw, two) {
		t.Errorf("%d certificates, want two", len(list))
	}
	want := slices.Concat(pemtext.Certificate(one), pemtext.Certificate([]byte("unreadable")), pemtext.Certificate(two))
	if out, n := pemtext.Certificates(text); n != 3 || !bytes.Equal(out, want) {
		t.Errorf("%d certificates:\n%s", n, out)
	}
	if leaf, err := pemtext.Leaf(text); err != nil || !bytes.Equal(leaf.Raw, one) {
		t.Errorf("the leaf is not the first certificate: %v", err)
	}
	block := pemtext.First(key)
	if got, err := x509.ParsePKCS8PrivateKey(block.Bytes); err != nil || !private.Equal(got) {
		t.Errorf("the key is another: %v", err)
	}
}

// TestNoPEM reads what has no block, or begins with another one than a certificate.
func TestNoPEM(t *testing.T) {
	for _, text := range []string{"", "words", "-----BEGIN CERTIFICATE-----\n"} {
		if pemtext.First([]byte(text)) != nil || len(pemtext.Parsed([]byte(text))) != 0 {
			t.Errorf("%q has a block", text)
		}
		if out, n := pemtext.Certificates([]byte(text)); n != 0 || out != nil {
			t.Errorf("%q has %d certificates", text, n)
		}
		if _, err := pemtext.Leaf([]byte(text)); err == nil {
			t.Errorf("%q has a leaf", text)
		}
	}
	if _, err := pemtext.Leaf(pemtext.Encode(pemtext.TypeKey, []byte("a"))); err == nil {
		t.Error("a key is a leaf")
	}
	if _, err := pemtext.Key("no key"); err == nil {
		t.Error("a text is a private key")
	}
}
