// Package pemtext reads and writes certificates and keys as PEM text (RFC 7468). Everything in
// the control plane and the agent that splits such a text or makes one does it here, so that
// all agree on what a text holds. What a certificate means is for the callers to judge.
package pemtext

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"iter"
)

// The types of the blocks that are written most often.
const (
	TypeCertificate = "CERTIFICATE"
	TypeKey         = "PRIVATE KEY" // in PKCS #8
)

// errNone is the error of a text without a block.
var errNone = errors.New("certificate is not PEM")

// Blocks yields the blocks of a text in their order. What is between them is skipped.
func Blocks(text []byte) iter.Seq[*pem.Block] {
	return func(yield func(*pem.Block) bool) {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if !yield(block) {
				return
			}
		}
	}
}

// First returns the first block of a text, or nil if there is none.
func First(text []byte) *pem.Block {
	block, _ := pem.Decode(text)
	return block
}

// Encode returns a block with some content. It has no headers.
func Encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Certificate returns the block of a certificate.
func Certificate(der []byte) []byte { return Encode(TypeCertificate, der) }

// Fingerprint is the SHA-256 digest of a certificate, in hexadecimal.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// Key returns the block of a private key, in PKCS #8 (RFC 5958).
func Key(private any) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	return Encode(TypeKey, der), nil
}

// Leaf parses the first block of a text, which must be a certificate.
func Leaf(text []byte) (*x509.Certificate, error) {
	block := First(text)
	if block == nil {
		return nil, errNone
	}
	return x509.ParseCertificate(block.Bytes)
}

// Parsed returns the certificates of a text. It skips what cannot be parsed as one.
func Parsed(text []byte) (list []*x509.Certificate) {
	for block := range Blocks(text) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			list = append(list, c)
		}
	}
	return list
}

// Certificates returns only the certificates of a text, and their number. A private key pasted
// beside them must not be sent to proxies, nor be kept beside what a node trusts.
func Certificates(text []byte) (out []byte, n int) {
	for block := range Blocks(text) {
		if block.Type == TypeCertificate {
			out = append(out, Certificate(block.Bytes)...)
			n++
		}
	}
	return out, n
}
