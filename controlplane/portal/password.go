package portal

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Cost is what one computation of argon2id costs (RFC 9106).
type Cost struct {
	// KiB is the memory, Passes the number of passes over it, Threads their parallelism.
	KiB, Passes uint32
	Threads     uint8
}

// DefaultCost is 19 MiB and two passes, which take 55 ms of a core at 2.5 GHz (BenchmarkPassword).
var DefaultCost = Cost{KiB: 19 << 10, Passes: 2, Threads: 1}

const (
	// atOnce bounds computations at a time, and so their memory; inLine those that wait.
	atOnce = 2
	inLine = 64
	// The bytes of a salt and of a hash.
	saltSize, hashSize = 16, 32
	// maxCost bounds what a stored hash may ask for.
	maxKiB, maxPasses = 1 << 20, 16
)

// Hasher computes and verifies hashes of passwords, few at a time. It is safe for concurrent use. The zero
// value has no place for anybody: all get [ErrBusy].
type Hasher struct {
	cost Cost
	// line has an entry for each caller, places one for each computation.
	line, places chan struct{}
	// decoy is verified where there is no hash.
	decoy string
}

// NewHasher returns a hasher.
func NewHasher(c Cost) *Hasher {
	h := &Hasher{cost: c, line: make(chan struct{}, atOnce+inLine), places: make(chan struct{}, atOnce)}
	h.decoy = c.hash(rand.Text())
	return h
}

// ErrBusy is the error when too many wait.
var ErrBusy error = fault.New(fault.Unavailable, "too many passwords are being verified")

// turn runs a computation when it is its turn. Whoever would have to wait long is refused.
func (h *Hasher) turn(ctx context.Context, compute func()) error {
	select {
	case h.line <- struct{}{}:
		defer func() { <-h.line }()
	default:
		return ErrBusy
	}
	select {
	case h.places <- struct{}{}:
		defer func() { <-h.places }()
	case <-ctx.Done():
		return ctx.Err()
	}
	compute()
	return nil
}

// Hash returns what is stored of a password.
func (h *Hasher) Hash(ctx context.Context, password string) (hash string, err error) {
	err = h.turn(ctx, func() { hash = h.cost.hash(password) })
	return hash, err
}

// Verify reports whether a password is that of a hash. Without a hash it takes the same time and
// reports false.
func (h *Hasher) Verify(ctx context.Context, password, hash string) (same bool, err error) {
	against := hash
	if hash == "" {
		against = h.decoy
	}
	err = h.turn(ctx, func() { same = matches(password, against) && hash != "" })
	return same, err
}

const algorithm = "argon2id"

// hash writes a new hash in the form of the PHC string format.
func (c Cost) hash(password string) string {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // documented never to return an error
	sum := argon2.IDKey([]byte(password), salt, c.Passes, c.KiB, c.Threads, hashSize)
	return fmt.Sprintf("$%s$v=%d$m=%d,t=%d,p=%d$%s$%s", algorithm, argon2.Version, c.KiB, c.Passes, c.Threads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum))
}

// matches compares a password with a hash that says itself what it costs. One that cannot be read
// matches nothing.
func matches(password, hash string) bool {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != algorithm {
		return false
	}
	var c Cost
	var version int
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return false
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &c.KiB, &c.Passes, &c.Threads); err != nil {
		return false
	}
	if c.KiB > maxKiB || c.Passes < 1 || c.Passes > maxPasses || c.Threads < 1 {
		return false
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	want, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(want) != hashSize {
		return false
	}
	got := argon2.IDKey([]byte(password), salt, c.Passes, c.KiB, c.Threads, hashSize)
	return subtle.ConstantTimeCompare(got, want) == 1
}

// The bounds of passwords: the least in characters, the most in bytes.
const (
	leastPassword = 8
	mostPassword  = 256
)

// CheckPassword says what is wrong with a new password, or nothing.
func CheckPassword(password string) string {
	switch {
	case !utf8.ValidString(password) || strings.ContainsFunc(password, unicode.IsControl):
		return "must not hold control characters"
	case utf8.RuneCountInString(password) < leastPassword:
		return fmt.Sprintf("length must be at least %d", leastPassword)
	case len(password) > mostPassword:
		return fmt.Sprintf("length must be at most %d", mostPassword)
	}
	return ""
}
