package identity

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/controlplane/store"
)

// keyAudit signs the audit log.
const keyAudit = "audit-log-signing-key"

// OpenAuditKey returns the seed of the key that signs the audit log (RFC 8032), made at first start.
// Receivers of the log are pinned to it, so it is never replaced.
func OpenAuditKey(ctx context.Context, s store.Store) ([]byte, error) {
	pair, err := ensure(ctx, s, keyAudit, always, func() (*KeyPair, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, err
		}
		return &KeyPair{Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}, nil
	})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(pair.Key)
	if block == nil {
		return nil, errors.New("the key that signs the audit log is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the key that signs the audit log: %w", err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("the key that signs the audit log is no Ed25519 key")
	}
	return private.Seed(), nil
}
