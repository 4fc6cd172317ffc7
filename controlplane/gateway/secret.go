package gateway

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// The parameters of stored client secrets: PBKDF2 (RFC 8018) with HMAC-SHA-512.
const (
	hashRounds = 10000
	hashSalt   = 16
	hashLength = 32
	// maxRounds and maxHash bound the work that a stored text can cause.
	maxRounds = 200_000
	maxHash   = 256
	phcScheme = "$pbkdf2-sha512$"
)

// HashSecret returns the PHC string under which a client secret is stored.
func HashSecret(secret string) (string, error) {
	salt := make([]byte, hashSalt)
	_, _ = rand.Read(salt) // documented never to return an error
	return hashWith(secret, salt, hashRounds, hashLength)
}

func hashWith(secret string, salt []byte, rounds, length int) (string, error) {
	key, err := pbkdf2.Key(sha512.New, secret, salt, rounds, length)
	if err != nil {
		return "", fmt.Errorf("derive the hash of a secret: %w", err)
	}
	enc := base64.RawStdEncoding
	return fmt.Sprintf("%si=%d,l=%d$%s$%s", phcScheme, rounds, length,
		enc.EncodeToString(salt), enc.EncodeToString(key)), nil
}

// VerifySecret reports whether given is the secret behind stored. stored is a PHC string or,
// if hashing is off or was switched on later, the secret itself. The comparison takes
// constant time; an empty secret never matches.
func VerifySecret(stored, given string) bool {
	if stored == "" || given == "" {
		return false
	}
	h, ok := parseHash(stored)
	if !ok {
		return subtle.ConstantTimeCompare([]byte(stored), []byte(given)) == 1
	}
	key, err := pbkdf2.Key(sha512.New, given, h.salt, h.rounds, len(h.key))
	return err == nil && subtle.ConstantTimeCompare(key, h.key) == 1
}

// Hashed reports whether a stored secret is a PHC string, and whether it has the current
// parameters of HashSecret.
func Hashed(stored string) (hashed, current bool) {
	h, ok := parseHash(stored)
	return ok, ok && h.rounds == hashRounds && len(h.key) == hashLength
}

type secretHash struct {
	rounds    int
	salt, key []byte
}

func parseHash(stored string) (h secretHash, ok bool) {
	rest, ok := strings.CutPrefix(stored, phcScheme)
	if !ok {
		return h, false
	}
	parts := strings.Split(rest, "$")
	if len(parts) != 3 {
		return h, false
	}
	i, l, ok := strings.Cut(parts[0], ",")
	if !ok || !strings.HasPrefix(i, "i=") || !strings.HasPrefix(l, "l=") {
		return h, false
	}
	var err error
	if h.rounds, err = strconv.Atoi(i[2:]); err != nil || h.rounds < 1 || h.rounds > maxRounds {
		return h, false
	}
	length, err := strconv.Atoi(l[2:])
	if err != nil || length < 1 || length > maxHash {
		return h, false
	}
	if h.salt, err = base64.RawStdEncoding.DecodeString(parts[1]); err != nil {
		return h, false
	}
	if h.key, err = base64.RawStdEncoding.DecodeString(parts[2]); err != nil || len(h.key) != length {
		return h, false
	}
	return h, true
}
