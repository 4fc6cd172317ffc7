package seal

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of a key file.
const (
	// maxFile is the largest size in bytes.
	maxFile = 4096
	// maxRoots is the largest number of keys in a ring.
	maxRoots = 32
)

// forget marks a key that leaves the file when nothing is sealed with it any more.
const forget = "forget "

// Ring is the content of a key file: root keys, separated by line breaks or commas. Each is
// base64 of 32 bytes, as made by `openssl rand -base64 32`. The first one seals, the others
// open what was sealed with them. Keys marked with "forget" are dropped when nothing in the
// database needs them any more.
type Ring struct{ roots []root }

type root struct {
	key    []byte
	forget bool
}

// parse reads the text of a ring.
func parse(text string) (*Ring, error) {
	r := &Ring{}
	for part := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == ',' }) {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		encoded, dropped := strings.CutPrefix(part, forget)
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil {
			// The cause would quote a part of the key.
			return nil, errors.New("not valid base64")
		}
		if len(key) != RootSize {
			return nil, fmt.Errorf("the key has %d bytes, not %d", len(key), RootSize)
		}
		if dropped && len(r.roots) == 0 {
			return nil, errors.New("the first key seals, and cannot be one to forget")
		}
		r.roots = append(r.roots, root{key, dropped})
	}
	switch n := len(r.roots); {
	case n == 0:
		return nil, fmt.Errorf("the key has 0 bytes, not %d", RootSize)
	case n > maxRoots:
		return nil, fmt.Errorf("it has %d keys, more than %d", n, maxRoots)
	}
	return r, nil
}

// Text returns the content of a key file.
func (r *Ring) Text() string {
	var b strings.Builder
	for _, k := range r.roots {
		if k.forget {
			b.WriteString(forget)
		}
		b.WriteString(base64.StdEncoding.EncodeToString(k.key) + "\n")
	}
	return b.String()
}

// Keys derives the keys of the ring.
func (r *Ring) Keys() (*Keys, error) {
	roots := make([][]byte, len(r.roots))
	for i := range r.roots {
		roots[i] = r.roots[i].key
	}
	return New(roots...)
}

// Rotated returns a ring with a new key, which seals. forgetOld marks all others to be
// forgotten.
func (r *Ring) Rotated(forgetOld bool) *Ring {
	key := make([]byte, RootSize)
	_, _ = rand.Read(key) // it never fails
	next := &Ring{roots: append([]root{{key: key}}, r.roots...)}
	for i := 1; i < len(next.roots); i++ {
		next.roots[i].forget = next.roots[i].forget || forgetOld
	}
	return next
}

// Full reports whether there is no room for another key.
func (r *Ring) Full() bool { return len(r.roots) >= maxRoots }

// Forgotten returns the ring without the keys that are to be forgotten, and whether there are
// any.
func (r *Ring) Forgotten() (*Ring, bool) {
	kept := slices.DeleteFunc(slices.Clone(r.roots), func(k root) bool { return k.forget })
	return &Ring{roots: kept}, len(kept) < len(r.roots)
}

// Forgets reports whether a key is to be forgotten. Key 0 is the one that seals.
func (r *Ring) Forgets(i int) bool { return i < len(r.roots) && r.roots[i].forget }

// String keeps keys out of logs.
func (r *Ring) String() string { return "[redacted]" }

// GoString keeps keys out of logs.
func (r *Ring) GoString() string { return "[redacted]" }
