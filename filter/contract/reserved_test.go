package contract

import (
	"slices"
	"strings"
	"testing"
)

// mixtures returns all spellings of a name with dashes and underscores.
func mixtures(name string) []string {
	head, tail, ok := strings.Cut(name, "-")
	if !ok {
		return []string{name}
	}
	var all []string
	for _, rest := range mixtures(tail) {
		all = append(all, head+"-"+rest, head+"_"+rest)
	}
	return all
}

// TestReservedFamilies: the headers that tell an upstream who calls, and those that Envoy
// and its filters use among themselves, cannot come from a client in any spelling.
func TestReservedFamilies(t *testing.T) {
	families := []string{
		"x-consumer-groups", "x-consumer-x", "x-authenticated-groups", "x-authenticated-consumer", "x-credential-username", "x-credential-",
		"x-anonymous-consumer", "x-meshgate-anything", "x-envoy-original-path", "x-envoy-retry-on",
	}
	for _, name := range slices.Concat(families, IdentityHeaders[:], OAuthHeaders) {
		for _, m := range mixtures(name) {
			for _, spelled := range []string{m, strings.ToUpper(m), strings.ToUpper(m[:1]) + m[1:]} {
				if !IsReserved([]byte(spelled), false) {
					t.Errorf("%s passes", spelled)
				}
				if !IsReservedTrailer([]byte(spelled)) {
					t.Errorf("%s passes as a trailer", spelled)
				}
				if got := IsReserved([]byte(spelled), true); got == (spelled == HeaderOAuthProto) {
					t.Errorf("%s on a request that is handed over: %t", spelled, got)
				}
			}
		}
	}
}

// TestReservedTwins: the header that the listener writes stays, and other spellings of it
// are removed.
func TestReservedTwins(t *testing.T) {
	for _, name := range []string{"x-forwarded-for", "x-forwarded-proto", "x-forwarded-prefix", "x-forwarded-client-cert", "x-real-ip", "x-envoy-external-address", "forwarded"} {
		for _, m := range mixtures(name) {
			if got := IsReserved([]byte(m), false); got == (m == name) {
				t.Errorf("%s: %t", m, got)
			}
			// No listener writes trailers.
			for _, spelled := range []string{m, strings.ToUpper(m), strings.ToUpper(m[:1]) + m[1:]} {
				if !IsReservedTrailer([]byte(spelled)) {
					t.Errorf("%s passes as a trailer", spelled)
				}
			}
		}
	}
}

// TestNotReserved: names that only resemble reserved ones.
func TestNotReserved(t *testing.T) {
	for _, name := range []string{
		"", "x", "x-", "x-consumer", "x-consumers", "xx-consumer-id", "x.consumer.id", "x-anonymous-consumers", "x-anonymous", "x-credentials",
		"authorization", "x-meshgate", "x-envoy", "x-mesh-tags", "x-request-id", "x-forwarded", "x-real-ips", "x_token", "x-api-key", "_consumer-id",
		"f", "fo", "forward", "forwarded-for", "forwardeds", "for-warded", "x-forwardeds", "from",
	} {
		if IsReserved([]byte(name), false) || IsReservedTrailer([]byte(name)) {
			t.Errorf("%q is taken for a reserved one", name)
		}
	}
}

// TestReservedNames: names are compared with folded names, and the first matching entry
// decides, so no entry may hide another one.
func TestReservedNames(t *testing.T) {
	for i, r := range ReservedHeaders {
		if !mayBeReserved([]byte(r.Name)) || strings.Trim(r.Name, "abcdefghijklmnopqrstuvwxyz-") != "" {
			t.Errorf("%q is no folded name that begins as those that are compared", r.Name)
		}
		if r.Kept != "" && !strings.HasPrefix(r.Kept, r.Name) {
			t.Errorf("%q keeps %q", r.Name, r.Kept)
		}
		for _, other := range ReservedHeaders[i+1:] {
			if r.is([]byte(other.Name)) {
				t.Errorf("%q hides %q", r.Name, other.Name)
			}
		}
	}
}
