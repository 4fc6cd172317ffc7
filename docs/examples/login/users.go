package main

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"sync"
	"time"
)

const (
	// hashRounds of PBKDF2-HMAC-SHA256 make guessing slow.
	hashRounds = 600_000
	// maxFailures wrong passwords for one name in failureWindow are answered;
	// after that nobody can log in with the name until the window is over.
	maxFailures   = 5
	failureWindow = time.Minute
)

// directory knows the users. A real application asks its own here.
type directory struct {
	users map[string]account
	// decoy is verified for names that do not exist, so that the time of the
	// answer does not tell which ones do.
	decoy  account
	rounds int
	now    func() time.Time
	// verifying lets one password be hashed at a time: a flood of attempts
	// occupies one CPU, not all.
	verifying sync.Mutex
	failures  map[string]failure
}

type account struct {
	salt, hash []byte
	id         string
}

// failure counts wrong passwords since a moment.
type failure struct {
	since time.Time
	count int
}

// newDirectory hashes the passwords of the users with so many rounds.
func newDirectory(users []user, rounds int, now func() time.Time) (*directory, error) {
	d := &directory{users: map[string]account{}, rounds: rounds, now: now, failures: map[string]failure{}}
	var err error
	if d.decoy, err = newAccount("", rand.Text(), rounds); err != nil {
		return nil, err
	}
	for _, u := range users {
		if _, twice := d.users[u.Name]; twice {
			return nil, fmt.Errorf("user %q exists twice", u.Name)
		}
		if d.users[u.Name], err = newAccount(u.ID, u.Password, rounds); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func newAccount(id, password string, rounds int) (account, error) {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	hash, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	return account{salt, hash, id}, err
}

// verify returns the id of a user, or "" if name and password do not go together
// or the name was tried too often.
func (d *directory) verify(name, password string) string {
	d.verifying.Lock()
	defer d.verifying.Unlock()
	if d.blocked(name) {
		return ""
	}
	a, known := d.users[name]
	if !known {
		a = d.decoy
	}
	hash, err := pbkdf2.Key(sha256.New, password, a.salt, d.rounds, sha256.Size)
	if err != nil || subtle.ConstantTimeCompare(hash, a.hash) != 1 || !known {
		f := d.failures[name]
		d.failures[name] = failure{f.since, f.count + 1}
		return ""
	}
	delete(d.failures, name)
	return a.id
}

// blocked reports whether a name was tried too often, and forgets what is over.
func (d *directory) blocked(name string) bool {
	now := d.now()
	for n, f := range d.failures {
		if now.Sub(f.since) >= failureWindow {
			delete(d.failures, n)
		}
	}
	f, ok := d.failures[name]
	if !ok {
		d.failures[name] = failure{since: now}
	}
	return f.count >= maxFailures
}
