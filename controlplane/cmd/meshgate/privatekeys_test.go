package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// keysAllowed are the tracked files that have what looks like a private key, and why it is none that
// opens anything.
var keysAllowed = map[string]string{
	"controlplane/identity/signingkeys_test.go": "a PEM block without a key, which must be refused",
	"e2e/gateway/dump_test.go":                  "the first line of a key, which no dump may have",
	"e2e/mesh/dump_test.go":                     "the first line of a key, which no dump may have",
	"xds/server/stream_test.go":                 "the first line of a key, which no record may have",
}

var (
	keyLine = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)
	// encoded matches what may be a key in base64, on one line or on several. The shortest key in DER has
	// 48 bytes.
	encoded = regexp.MustCompile(`[A-Za-z0-9+/]{40,}(?:\r?\n?[A-Za-z0-9+/]+)*`)
)

// TestNoPrivateKeys: no tracked file has a private key. Whoever reads the source has it, so whatever would
// accept it is open to everybody; keys of tests are made by the tests.
func TestNoPrivateKeys(t *testing.T) {
	const root = "../../.."
	if _, err := os.Stat(filepath.Join(root, ".git")); os.IsNotExist(err) {
		t.Skip("this is no checkout: nothing is tracked")
	}
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(keysAllowed)
	files := 0
	for name := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		text, err := os.ReadFile(filepath.Join(root, string(name)))
		if err != nil {
			continue // deleted, or a directory that a link leads to
		}
		files++
		if !keyLine.Match(text) && !holdsKey(text) {
			continue
		}
		if keysAllowed[string(name)] == "" {
			t.Errorf("%s has a private key", name)
		}
		delete(left, string(name))
	}
	if files < 1000 {
		t.Errorf("only %d files were read", files)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("%s is allowed to have a private key, and has none", name)
	}
}

// holdsKey reports whether a text has a private key in DER, whatever lines surround it.
func holdsKey(text []byte) bool {
	return slices.ContainsFunc(encoded.FindAll(text, -1), func(run []byte) bool {
		der := make([]byte, base64.RawStdEncoding.DecodedLen(len(run)))
		n, _ := base64.RawStdEncoding.Decode(der, run) // words that follow the key are no error
		return isKey(der[:n])
	})
}

// isKey reports whether a text begins with a private key.
func isKey(der []byte) bool {
	var whole asn1.RawValue
	if _, err := asn1.Unmarshal(der, &whole); err != nil {
		return false
	}
	_, pkcs8 := x509.ParsePKCS8PrivateKey(whole.FullBytes)
	_, pkcs1 := x509.ParsePKCS1PrivateKey(whole.FullBytes)
	_, ec := x509.ParseECPrivateKey(whole.FullBytes)
	return pkcs8 == nil || pkcs1 == nil || ec == nil
}

// TestHoldsKey: a key is found however it is written.
func TestHoldsKey(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	large, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, der := range [][]byte{small, large} {
		text := base64.StdEncoding.EncodeToString(der)
		folded := regexp.MustCompile(".{64}")
		for name, text := range map[string]string{
			"one line": text, "a member": `{"key":"` + text + `"}`, "without padding": base64.RawStdEncoding.EncodeToString(der),
			"lines": folded.ReplaceAllString(text, "$0\n"), "lines of DOS": folded.ReplaceAllString(text, "$0\r\n"),
		} {
			if !holdsKey([]byte("before\n" + text + "\nafter")) {
				t.Errorf("%s: the key is not found in %s", name, text)
			}
		}
	}
	if holdsKey([]byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0x30, 1}, 60)))) {
		t.Error("something else is taken for a key")
	}
}
