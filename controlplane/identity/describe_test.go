package identity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/meshgate/meshgate/xds/pemtext"
)

func TestIssuer(t *testing.T) {
	cert, other := pemtext.Certificate([]byte("one")), pemtext.Certificate([]byte("other"))
	key := pemtext.Encode("PRIVATE KEY", []byte("key"))
	sum := sha256.Sum256([]byte("one"))
	want := hex.EncodeToString(sum[:])
	for name, test := range map[string]struct {
		in   []byte
		want string
	}{
		"one":       {cert, want},
		"first":     {bytes.Join([][]byte{cert, other}, nil), want},
		"after key": {bytes.Join([][]byte{key, cert}, nil), want},
		"none":      {[]byte("nothing"), ""},
		"key only":  {key, ""},
	} {
		if got := Issuer(test.in); got != test.want {
			t.Errorf("%s: %q, not %q", name, got, test.want)
		}
	}
}
