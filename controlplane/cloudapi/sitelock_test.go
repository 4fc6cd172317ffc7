package cloudapi

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/portal"
)

// from is the client of a request.
func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address + ":1234" }
}

// attempt is a login from an address.
func (f *fixture) attempt(at, email, password, address string) answer {
	f.t.Helper()
	return f.site("POST", at, "/authenticate", fmt.Sprintf(`{"username":%q,"password":%q}`, email, password), from(address))
}

// TestLockedDeveloper: after failures in a row the right password does not help for a while, from
// wherever it comes but from where the developer has logged in before; the answer does not say why.
func TestLockedDeveloper(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	f.developer(at, "ada@example.com")
	limits := portal.DefaultLimits
	guess := func(n int) {
		t.Helper()
		for i := range n {
			if got := f.attempt(at, "ada@example.com", "wrong", fmt.Sprintf("198.51.100.%d", i)).told(); got != toldInvalid {
				t.Fatal(got)
			}
		}
	}
	guess(limits.DeveloperFailures - 1)
	if got := f.attempt(at, "ada@example.com", password, "203.0.113.1"); got.Code != 204 {
		t.Fatalf("before the last failure: %s", got.told())
	}
	guess(limits.DeveloperFailures)
	if got := f.attempt(at, "ada@example.com", password, "203.0.113.2").told(); got != toldInvalid {
		t.Errorf("locked: %s", got)
	}
	events := f.events(at)
	if last := events[len(events)-1]; last.Outcome != audit.Locked || last.Principal == "" || events[len(events)-2].Outcome != audit.InvalidPassword {
		t.Errorf("%v", events[len(events)-2:])
	}
	if got := f.attempt(at, "ada@example.com", password, "203.0.113.1"); got.Code != 204 {
		t.Errorf("locked by strangers out of where she has logged in: %s", got.told())
	}
	f.now = f.now.Add(limits.Lock / 2)
	guess(limits.DeveloperFailures)
	f.now = f.now.Add(limits.Lock / 2)
	if got := f.attempt(at, "ada@example.com", password, "203.0.113.2"); got.Code != 204 {
		t.Errorf("after the lock: %s", got.told())
	}
}

// TestLockedWhereKnown: where a developer has logged in before, failures are counted, too, and lock only
// that address; a login elsewhere gives it no further guesses.
func TestLockedWhereKnown(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	f.developer(at, "ada@example.com")
	login := func(address string) answer { return f.attempt(at, "ada@example.com", password, address) }
	for _, address := range []string{"203.0.113.1", "203.0.113.2"} {
		if got := login(address); got.Code != 204 {
			t.Fatal(got.told())
		}
	}
	limits := portal.DefaultLimits
	for i := range limits.DeveloperFailures {
		if got := f.attempt(at, "ada@example.com", "wrong", "203.0.113.1").told(); got != toldInvalid {
			t.Fatal(got)
		}
		if got := login("203.0.113.2"); got.Code != 204 {
			t.Fatalf("%d: elsewhere: %s", i, got.told())
		}
	}
	if got := login("203.0.113.1").told(); got != toldInvalid {
		t.Errorf("not locked: %s", got)
	}
	events := f.events(at)
	if last := events[len(events)-1]; last.Outcome != audit.Locked {
		t.Errorf("%v", last)
	}
	for i := range cloud.MaxKnown { // the others are known no more
		f.now = f.now.Add(time.Minute)
		if got := login(fmt.Sprintf("198.51.100.%d", i)); got.Code != 204 {
			t.Fatal(got.told())
		}
	}
	for i := range limits.DeveloperFailures {
		f.attempt(at, "ada@example.com", "wrong", fmt.Sprintf("192.0.2.%d", i))
	}
	if got := login("203.0.113.2").told(); got != toldInvalid {
		t.Errorf("an address of long ago is known: %s", got)
	}
	f.now = f.now.Add(cloud.KnownFor)
	for i := range limits.DeveloperFailures {
		f.attempt(at, "ada@example.com", "wrong", fmt.Sprintf("192.0.2.%d", i))
	}
	if got := login("198.51.100.1").told(); got != toldInvalid {
		t.Errorf("a login of long ago counts: %s", got)
	}
}

// TestManyGuessAtOnce: however many guess at the same time, no more guesses count than before a lock.
func TestManyGuessAtOnce(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	f.developer(at, "ada@example.com")
	const n = 40
	done := make(chan int, n)
	for i := range n {
		go func() { done <- f.attempt(at, "ada@example.com", "wrong", fmt.Sprintf("198.51.100.%d", i)).Code }()
	}
	for range n {
		if code := <-done; code != 401 {
			t.Errorf("%d", code)
		}
	}
	count := map[audit.Outcome]int{}
	for _, e := range f.events(at) {
		count[e.Outcome]++
	}
	if most := portal.DefaultLimits.DeveloperFailures; count[audit.InvalidPassword] != most || count[audit.Locked] != n-most {
		t.Errorf("%v", count)
	}
}

// TestLockedAddress: an address from which many logins fail is locked out of the portal for a while,
// whomever it tries, and nobody else is.
func TestLockedAddress(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	f.developer(at, "ada@example.com")
	limits := portal.DefaultLimits
	for i := range limits.AddressFailures {
		if got := f.attempt(at, fmt.Sprintf("nobody-%d@example.com", i), "wrong", "198.51.100.1").told(); got != toldInvalid {
			t.Fatalf("%d: %s", i, got)
		}
		f.now = f.now.Add(limits.Address.Each)
	}
	got := f.attempt(at, "ada@example.com", password, "198.51.100.1")
	if got.told() != toldMany || got.Header().Get("Retry-After") != fmt.Sprint(int((limits.Lock-limits.Address.Each).Seconds())) {
		t.Errorf("%s %s", got.told(), got.Header().Get("Retry-After"))
	}
	events := f.events(at)
	if last := events[len(events)-1]; last.Outcome != audit.Locked || last.Principal == "" {
		t.Errorf("%v", last)
	}
	if got := f.attempt(at, "ada@example.com", password, "198.51.100.2"); got.Code != 204 {
		t.Errorf("somebody else: %s", got.told())
	}
	f.now = f.now.Add(limits.Lock)
	if got := f.attempt(at, "ada@example.com", password, "198.51.100.1"); got.Code != 204 {
		t.Errorf("after the lock: %s", got.told())
	}
}

// TestFlood: a flood of logins that fail is turned away before anything is stored of it, and neither
// those who were there before nor other portals are held up by it.
func TestFlood(t *testing.T) {
	f := setup(t)
	at, other := f.portal("docs"), f.portal("other")
	f.hook(at)
	f.developer(at, "ada@example.com")
	f.developer(other, "bob@example.com")
	limits := portal.DefaultLimits
	if got := f.attempt(at, "ada@example.com", password, "203.0.113.7"); got.Code != 204 {
		t.Fatal(got.told())
	}
	count := map[int]int{}
	for range 3 * limits.Address.Burst {
		a := f.attempt(at, "nobody@example.com", "wrong", "198.51.100.1")
		count[a.Code]++
		if a.Code == 429 && a.Header().Get("Retry-After") != "3" {
			t.Errorf("Retry-After: %s", a.Header().Get("Retry-After"))
		}
	}
	if count[401] != limits.Address.Burst || count[429] != 2*limits.Address.Burst || len(f.events(at)) != 1+limits.Address.Burst {
		t.Errorf("one address: %v, %d events", count, len(f.events(at)))
	}
	clear(count)
	for i := range limits.Portal.Burst + 50 {
		count[f.attempt(at, "nobody@example.com", "wrong", fmt.Sprintf("10.0.%d.%d", i/250, i%250)).Code]++
	}
	if count[401] != limits.Portal.Burst-limits.Address.Burst || len(f.events(at)) != 1+limits.Portal.Burst {
		t.Errorf("many addresses: %v, %d events", count, len(f.events(at)))
	}
	for name, got := range map[string]answer{
		"somebody who was there before": f.attempt(at, "ada@example.com", password, "203.0.113.7"),
		"another portal":                f.attempt(other, "bob@example.com", password, "203.0.113.8"),
	} {
		if got.Code != 204 {
			t.Errorf("%s: %s", name, got.told())
		}
	}
	f.now = f.now.Add(limits.Portal.Each)
	if got := f.attempt(at, "ada@example.com", password, "203.0.113.9"); got.Code != 204 {
		t.Errorf("a newcomer after the flood: %s", got.told())
	}
}

// TestManyLogIn: many developers may log in from one address: a whole office has one. Each of them may
// only so often, from there and from everywhere, and nothing is stored of what is too much.
func TestManyLogIn(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	limits := portal.DefaultLimits
	total := 0
	for i := range limits.Portal.Burst/limits.Device.Burst + 1 {
		email := fmt.Sprintf("d%d@example.com", i)
		f.developer(at, email)
		for range limits.Device.Burst {
			if got := f.login(at, email, password); got.Code != 204 {
				t.Fatalf("%d: %s", total, got.told())
			}
			total++
		}
	}
	got := f.login(at, "d0@example.com", password)
	if got.told() != toldMany || got.Header().Get("Retry-After") != fmt.Sprint(limits.Device.Each.Seconds()) {
		t.Errorf("once more: %s %s", got.told(), got.Header().Get("Retry-After"))
	}
	for range 2 * limits.Address.Burst {
		f.login(at, "d0@example.com", password)
	}
	f.developer(at, "new@example.com")
	if got := f.login(at, "new@example.com", password); got.Code != 204 {
		t.Errorf("somebody else at the address is held up: %s", got.told())
	}
	if n := len(f.events(at)); n != total+1 {
		t.Errorf("%d events of %d logins", n, total+1)
	}
	f.now = f.now.Add(limits.Device.Each)
	if got := f.login(at, "d0@example.com", password); got.Code != 204 {
		t.Errorf("later: %s", got.told())
	}
	f.now = f.now.Add(24 * time.Hour)
	count := map[int]int{}
	for i := range 2 * limits.Developer.Burst {
		count[f.attempt(at, "d0@example.com", password, fmt.Sprintf("198.51.100.%d", i)).Code]++
	}
	if count[204] != limits.Developer.Burst || count[429] != limits.Developer.Burst {
		t.Errorf("from everywhere: %v", count)
	}
}
