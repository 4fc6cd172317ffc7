package oauth

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// guess presents a secret of the confidential client from an address.
func (w *world) guess(address, secret string) (status, retryAfter int) {
	rec := w.ask(http.MethodPost, "/oauth2/token", form, "grant_type=client_credentials&client_id=app&client_secret="+secret,
		map[string]string{contract.HeaderOAuthClient: address})
	retryAfter, _ = strconv.Atoi(rec.Header().Get("Retry-After"))
	return rec.Code, retryAfter
}

// address returns the i-th of many addresses, each in a network of its own.
func address(i int) string { return fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff) }

// profiles are configurations of both profiles.
func profiles() map[string]gateway.OAuth2Config {
	old := strict()
	old.Profile = gateway.ProfileOAuth20
	return map[string]gateway.OAuth2Config{"oauth2.0": old, "oauth2.1": strict()}
}

// TestFailuresOfAClientAreThrottled: after a hundred failures a minute, from whichever
// addresses, the answer is 429. That includes the right secret, because otherwise guessing
// could go on.
func TestFailuresOfAClientAreThrottled(t *testing.T) {
	for name, cfg := range profiles() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cfg)
			for i := range 100 {
				if status, _ := w.guess(address(i), "wrong"); status != 400 {
					t.Fatalf("failure %d: %d", i, status)
				}
			}
			for _, secret := range []string{"wrong", "secret"} {
				if status, after := w.guess(address(200), secret); status != 429 || after != 1 {
					t.Errorf("%s after 100 failures: %d, Retry-After %d", secret, status, after)
				}
			}
			if status, doc := w.post("token", "grant_type=client_credentials&client_id=rival&client_secret=rival-secret"); status != 200 {
				t.Errorf("another client: %d %v", status, doc)
			}
			w.now = w.now.Add(time.Second)
			if status, _ := w.guess(address(201), "secret"); status != 200 {
				t.Errorf("after Retry-After: %d", status)
			}
			w.now = w.now.Add(time.Minute)
			for i := range 100 {
				if status, _ := w.guess(address(300+i), "wrong"); status != 400 {
					t.Fatalf("a minute later, failure %d: %d", i, status)
				}
			}
		})
	}
}

// TestNobodyLocksAClientOut: an address from which the client has authenticated has its own
// limit, so strangers cannot lock the client out.
func TestNobodyLocksAClientOut(t *testing.T) {
	for name, cfg := range profiles() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cfg)
			if status, _ := w.guess("192.0.2.10", "secret"); status != 200 {
				t.Fatalf("%d", status)
			}
			for i := range 1000 {
				w.guess(address(i), "wrong")
			}
			if status, _ := w.guess("192.0.2.10", "secret"); status != 200 {
				t.Errorf("the client is locked out: %d", status)
			}
			if status, _ := w.guess("192.0.2.11", "secret"); status != 429 {
				t.Errorf("a new address during the attack: %d", status)
			}
			throttled := 0
			for range 150 {
				if status, _ := w.guess("192.0.2.10", "wrong"); status == 429 {
					throttled++
				}
			}
			if throttled < 50 {
				t.Errorf("%d of 150 guesses from the known address were throttled", throttled)
			}
			w.now = w.now.Add(knownLife)
			for i := range 1000 {
				w.guess(address(i), "wrong")
			}
			if status, _ := w.guess("192.0.2.10", "secret"); status != 429 {
				t.Errorf("an address that was not used for long: %d", status)
			}
		})
	}
}

// TestNobodyLocksAClientOutOfItsAddress: strangers behind the same address, as behind one
// NAT, use up the limit of the address, and the client can still authenticate.
func TestNobodyLocksAClientOutOfItsAddress(t *testing.T) {
	const shared = "192.0.2.10"
	for name, cfg := range profiles() {
		for _, limit := range []int{0, 30} {
			t.Run(fmt.Sprint(name, limit), func(t *testing.T) {
				w := newWorld(t, cfg)
				w.server.failures = newThrottle(Limits{Address: limit}, w.clock)
				if status, _ := w.guess(shared, "secret"); status != 200 {
					t.Fatalf("%d", status)
				}
				refused := 0
				for i := range 300 {
					body := fmt.Sprintf("grant_type=client_credentials&client_id=nobody%d&client_secret=x", i)
					if rec := w.ask(http.MethodPost, "/oauth2/token", form, body, map[string]string{contract.HeaderOAuthClient: shared}); rec.Code == 429 {
						refused++
					}
				}
				if counted := limit > 0 || cfg.Strict(); (refused > 200) != counted {
					t.Errorf("%d of 300 strangers were refused", refused)
				}
				if status, _ := w.guess(shared, "secret"); status != 200 {
					t.Errorf("the client is locked out: %d", status)
				}
				if status, _ := w.guess(shared, "wrong"); status == 200 {
					t.Error("a wrong secret is good")
				}
			})
		}
	}
}

// TestAddressesAreThrottled: in the strict profile addresses are always limited, in the other
// one only if it is configured. The clients that are named, if any, do not matter.
func TestAddressesAreThrottled(t *testing.T) {
	for name, cfg := range profiles() {
		for limit, want := range map[int]int{0: map[bool]int{true: 20, false: 300}[cfg.Strict()], 30: 30} {
			t.Run(fmt.Sprint(name, limit), func(t *testing.T) {
				w := newWorld(t, cfg)
				w.server.failures = newThrottle(Limits{Address: limit}, w.clock)
				wrong := 0
				for i := range 300 {
					body := fmt.Sprintf("grant_type=client_credentials&client_id=nobody%d&client_secret=x", i)
					if rec := w.ask(http.MethodPost, "/oauth2/token", form, body, nil); rec.Code == 400 {
						wrong++
					}
				}
				if wrong != want {
					t.Errorf("%d failures were answered, want %d", wrong, want)
				}
				if status, _ := w.guess("192.0.2.99", "secret"); status != 200 {
					t.Errorf("another address: %d", status)
				}
			})
		}
	}
}

// TestSuccessesCostNothing: only failures are counted, and a client without a secret to guess
// causes none.
func TestSuccessesCostNothing(t *testing.T) {
	w := newWorld(t, strict())
	for range 300 {
		if status, _ := w.guess("192.0.2.1", "secret"); status != 200 {
			t.Fatalf("%d", status)
		}
	}
	cfg := profiles()["oauth2.0"]
	w = newWorld(t, cfg)
	for range 300 {
		if status, _ := w.post("token", "grant_type=refresh_token&client_id=public&refresh_token=x"); status != 400 {
			t.Fatalf("a public client: %d", status)
		}
	}
}

// TestProvisionKeysAreThrottled: a provision key can be guessed like a secret. A backend that
// has shown the right one is not locked out either.
func TestProvisionKeysAreThrottled(t *testing.T) {
	for name, cfg := range profiles() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cfg)
			authorize := func(from, key string) int {
				return w.ask(http.MethodPost, "/oauth2/authorize", form, "provision_key="+key+"&authenticated_userid=u&client_id=app&response_type=code&code_challenge_method=S256&code_challenge="+challenge,
					map[string]string{contract.HeaderOAuthClient: from}).Code
			}
			if status := authorize("192.0.2.10", "pk"); status != 200 {
				t.Fatalf("%d", status)
			}
			wrong := 0
			for i := range 300 {
				if authorize(address(i), "guess") == 400 {
					wrong++
				}
			}
			if wrong != 100 {
				t.Errorf("%d guesses were answered", wrong)
			}
			if known, new := authorize("192.0.2.10", "pk"), authorize("192.0.2.11", "pk"); known != 200 || new != 429 {
				t.Errorf("the backend: %d; a stranger with the key: %d", known, new)
			}
		})
	}
}

// TestConcurrentGuesses: requests that are checked at the same time get no more answers than
// others. Over the limit, failures and successes look the same.
func TestConcurrentGuesses(t *testing.T) {
	w := newWorld(t, profiles()["oauth2.0"])
	answers := make([]int, 1000)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i], _ = w.guess(address(i), "wrong") })
	}
	all.Wait()
	wrong := 0
	for _, status := range answers {
		if status == 400 {
			wrong++
		}
	}
	if wrong != 100 {
		t.Errorf("%d guesses were answered", wrong)
	}
}

func TestThrottleIsBounded(t *testing.T) {
	now := time.Unix(1, 0)
	l := newThrottle(Limits{}, func() time.Time { return now })
	for i := range 5 * maxTracked {
		l.settle(l.attempt(fmt.Sprint("client ", i), address(i), true), false)
		l.settle(l.attempt(fmt.Sprint("client ", i), address(i), true), true)
	}
	if n := l.addresses.len() + l.guesses.len() + l.known.len(); n > 6*maxTracked {
		t.Errorf("%d entries", n)
	}
	for range addressCredit {
		l.settle(l.attempt("", "2001:db8:ffff::1", true), false)
	}
	if l.wait(l.attempt("", "2001:db8:ffff::2", true)) == 0 {
		t.Error("a neighbour in the same network of 64 bits is another client")
	}
	if l.wait(l.attempt("", "no address", true)) != 0 {
		t.Error("an unknown address is held against everybody")
	}
}

// TestAddressesPushNoGuessesOut: failures that name no client are counted by address. However
// many addresses there are, the guesses at a client stay counted. A throttled client stays
// throttled as long as somebody goes on guessing.
func TestAddressesPushNoGuessesOut(t *testing.T) {
	now := time.Unix(1, 0)
	l := newThrottle(Limits{}, func() time.Time { return now })
	guess := func(i int, client string) time.Duration { return l.settle(l.attempt(client, address(i), true), false) }
	for i := range defaultClient {
		if wait := guess(i, "client"); wait != 0 {
			t.Fatalf("guess %d must wait for %v", i, wait)
		}
	}
	for i := range 4 * maxTracked {
		guess(1000+i, "")
	}
	if guess(500, "client") == 0 {
		t.Error("addresses pushed out what was counted of a client")
	}
	for i := range 4 * maxTracked {
		guess(1000+i, fmt.Sprint("another client ", i))
		if i%maxTracked == 0 && l.wait(l.attempt("client", address(500), true)) == 0 {
			t.Fatalf("%d other clients pushed out what is asked for all the time", i)
		}
	}
}
