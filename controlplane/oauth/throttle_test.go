package oauth

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

func TestThrottle(t *testing.T) {
	w := newWorld(t, strict())
	try := func(address, secret string) (int, string) {
		rec := w.ask(http.MethodPost, "/oauth2/token", form, "grant_type=client_credentials&client_id=app&client_secret="+secret, map[string]string{contract.HeaderOAuthClient: address})
		return rec.Code, rec.Header().Get("Retry-After")
	}
	for i := range addressCredit {
		if status, _ := try("192.0.2.9", "wrong"); status != 400 {
			t.Fatalf("failure %d: %d", i, status)
		}
	}
	if status, after := try("192.0.2.9", "secret"); status != 429 || after != "1" {
		t.Errorf("after %d failures: %d, Retry-After %q", addressCredit, status, after)
	}
	if status, _ := try("192.0.2.10", "secret"); status != 200 {
		t.Errorf("another address: %d", status)
	}
	w.now = w.now.Add(addressPeriod)
	if status, _ := try("192.0.2.9", "secret"); status != 200 {
		t.Errorf("after a while: %d", status)
	}
	// Successes cost nothing.
	for range 2 * addressCredit {
		if status, _ := try("192.0.2.10", "secret"); status != 200 {
			t.Fatalf("success: %d", status)
		}
	}
	// From many addresses the client is what is tried.
	for i := range clientCredit {
		try("10.0.0."+strconv.Itoa(i), "wrong")
	}
	if status, _ := try("192.0.2.11", "secret"); status != 429 {
		t.Errorf("after %d failures from everywhere: %d", clientCredit, status)
	}
}

// TestThrottleIsStrict: clients of the other profile are not slowed down.
func TestThrottleIsStrict(t *testing.T) {
	w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true})
	for range 3 * addressCredit {
		if status, _ := w.post("token", "grant_type=client_credentials&client_id=app&client_secret=wrong"); status != 400 {
			t.Fatalf("%d", status)
		}
	}
}

func TestThrottleIsBounded(t *testing.T) {
	now := time.Unix(1, 0)
	l := newThrottle(func() time.Time { return now })
	for i := range 5 * maxTracked {
		l.failed(fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff), "s", "")
	}
	if n := len(l.young) + len(l.old); n > 2*maxTracked {
		t.Errorf("%d entries", n)
	}
	for range addressCredit {
		l.failed("2001:db8:ffff::1", "s", "")
	}
	if l.wait("2001:db8:ffff::2", "s", "") == 0 {
		t.Error("a neighbour in the same network of 64 bits is another client")
	}
	if l.wait("no address", "s", "") != 0 {
		t.Error("an unknown address is held against everybody")
	}
}
