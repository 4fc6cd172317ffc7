package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// keyring is a directory of keys.
type keyring string

// private is a key that signs, and public the same as it is published.
type (
	private struct {
		id  string
		key crypto.Signer
	}
	public struct{ private }
)

func (p private) ID() string                                  { return p.id }
func (p private) Key() any                                    { return p.key }
func (p private) SignatureAlgorithm() jose.SignatureAlgorithm { return p.Algorithm() }
func (p private) Algorithm() jose.SignatureAlgorithm {
	if _, ok := p.key.(*ecdsa.PrivateKey); ok {
		return jose.ES256
	}
	return jose.RS256
}
func (p public) Key() any    { return p.key.Public() }
func (p public) Use() string { return "sig" }

// all reads the keys, in the order of the names of their files, which are their ids.
func (k keyring) all() (keys []private, err error) {
	entries, err := os.ReadDir(string(k))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".pem")
		if !ok {
			continue // it is being written
		}
		text, err := os.ReadFile(filepath.Join(string(k), e.Name()))
		if err != nil {
			return nil, err
		}
		key, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		keys = append(keys, private{id, key})
	}
	if len(keys) == 0 {
		return nil, errors.New("the issuer has no key")
	}
	return keys, nil
}

func parse(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("is no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return k, nil
	case *ecdsa.PrivateKey:
		return k, nil
	}
	return nil, fmt.Errorf("%T is no key of RSA or of an elliptic curve", key)
}

// signs is the key that signs.
func (k keyring) signs() (op.SigningKey, error) {
	keys, err := k.all()
	if err != nil {
		return nil, err
	}
	return keys[len(keys)-1], nil
}

// published are all keys, without what signs.
func (k keyring) published() (keys []op.Key, err error) {
	all, err := k.all()
	for _, p := range all {
		keys = append(keys, public{p})
	}
	return keys, err
}
