package tokencache

import (
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// forServiceOf is the record of a token that plane-1 holds, for a service of another.
func forServiceOf(plane string, token int, revision uint64) *contract.Record {
	r := of(testPlane, token, revision)
	r.Service, r.ServicePlane = "service-1", plane
	return r
}

// TestServicesOfOthersAreNotAccepted: neither Redis nor the control plane makes a gateway
// accept a token for a service of who is no member, be it in what it was told or in what
// Redis says.
func TestServicesOfOthersAreNotAccepted(t *testing.T) {
	for name, tc := range map[string]struct {
		told, redis []string
		from        contract.Answer // Redis
		asked       contract.Answer // if the control plane answers with it
	}{
		"a member":          {[]string{testPlane, "plane-2"}, []string{testPlane, "plane-2"}, contract.Found, contract.Found},
		"no member":         {[]string{testPlane}, []string{testPlane, "plane-2"}, contract.Unknown, contract.Unavailable},
		"left":              {[]string{testPlane, "plane-2"}, []string{testPlane}, contract.Unknown, contract.Found},
		"who holds it left": {[]string{testPlane, "plane-2"}, []string{"plane-2"}, contract.Unknown, contract.Found},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{}, func(w *world) {
				answer := &contract.Result{Answer: contract.Unknown, Revision: 9}
				w.group(tc.told...)
				w.control.introspect = func(*contract.Introspect) *contract.Result { return answer }
				w.store.putMembers(testEpoch, tc.redis...)
				w.store.putRecord(t, 1, forServiceOf("plane-2", 1, 5))
				w.want("from redis", w.resolve(1), tc.from)
				answer = &contract.Result{Answer: contract.Found, Revision: 9, Record: forServiceOf("plane-2", 2, 9)}
				w.want("by the control plane", w.resolve(2), tc.asked)
			})
		})
	}
}

// TestServiceLeavesWithOneCredential: who holds a value is a member still, whosever service
// it is for. So what another member holds of the same value counts only if that one had it
// first.
func TestServiceLeavesWithOneCredential(t *testing.T) {
	for what, want := range map[string]contract.Answer{holdsCounting: contract.Found, holdsOwn: contract.Unknown} { // as the control plane says
		inWorld(t, worldConfig{}, func(w *world) {
			w.group(testPlane, "plane-3")
			w.store.putRecord(t, 1, forServiceOf("plane-2", 1, 5))
			w.store.hold(t, "plane-3", 1, what)
			w.want("beside it "+what, w.resolve(1), want)
		})
	}
}

// TestServicesOfAStaticConfiguration: without a control plane its settings say whose services
// there are.
func TestServicesOfAStaticConfiguration(t *testing.T) {
	for plane, want := range map[string]contract.Answer{"": contract.Found, "plane-2": contract.Unknown} {
		inWorld(t, worldConfig{static: true}, func(w *world) {
			w.store.putRecord(t, 1, forServiceOf(plane, 1, 5))
			w.want("for a service of "+plane, w.resolve(1), want)
		})
	}
}
