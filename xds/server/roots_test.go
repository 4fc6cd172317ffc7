package server_test

import (
	"slices"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

const rootsOfOthers = "others"

// door returns a listener that judges callers by the roots of others, or by none.
func door(t *testing.T, judges bool) *resource.Resource {
	t.Helper()
	chain := &listenerv3.FilterChain{Name: "plain"}
	if judges {
		packed, err := anypb.New(&tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{
				ValidationContextSdsSecretConfig: &tlsv3.SdsSecretConfig{Name: rootsOfOthers, SdsConfig: &corev3.ConfigSource{}},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		chain = &listenerv3.FilterChain{Name: "judging", TransportSocket: &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed}}}
	}
	return xdstest.Freeze(resource.Listener, "door", &listenerv3.Listener{Name: "door", FilterChains: []*listenerv3.FilterChain{chain}})
}

// bundle returns the roots of others.
func bundle(roots string) *resource.Resource {
	return xdstest.Freeze(resource.Secret, rootsOfOthers, &tlsv3.Secret{Name: rootsOfOthers, Type: &tlsv3.Secret_ValidationContext{
		ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: roots}}},
	}})
}

// TestWhoNoLongerJudgesHoldsNoRootsUp: a proxy that is to judge by the roots of others no more, and refuses
// to change its listener, or whatever else it is told, is not one that refuses these roots. They are taken
// from it without its consent. While it is to judge by them, its refusal counts.
func TestWhoNoLongerJudgesHoldsNoRootsUp(t *testing.T) {
	for name, relay := range map[string]bool{"an Envoy": false, "an agent": true} {
		for what, only := range map[string]resource.TypeURL{"its listener": resource.Listener, "everything": ""} {
			t.Run(name+" refuses "+what, func(t *testing.T) {
				r := setup(t, nil)
				put := func(rs ...*resource.Resource) uint64 {
					r.rev++
					may := map[string]string{}
					if len(rs) > 1 {
						may[rootsOfOthers] = ""
					}
					r.snaps.Publish(map[string]*resource.Set{nodeID: resource.NewSet(rs, may)}, r.rev)
					return r.rev
				}
				var refuses atomic.Bool
				put(door(t, true), bundle("old"))
				c := r.dial(t, xdstest.Options{Relay: relay, Reject: func(u resource.TypeURL, _ []string) string {
					if refuses.Load() && (only == "" || u == only) {
						return "no"
					}
					return ""
				}})
				c.Request(resource.Secret).Equals(t, bundle("old"))
				acknowledged(t, r)
				refusers := func(rev uint64) []string {
					open, _ := r.snaps.Refusers(rev, []string{""}, func(x snapshot.Rejection) bool { return slices.Contains(x.Resources, rootsOfOthers) })
					return open
				}
				refuses.Store(true)
				if only == "" {
					rev := put(door(t, true), bundle("new"))
					r.settle(t, rev)
					if got := refusers(rev); len(got) != 1 {
						t.Errorf("while it judges by the roots, %v refuse them", got)
					}
				}
				for range 2 {
					rev := put(door(t, false))
					if p := r.settle(t, rev); len(p.Rejected) != 1 || p.Rejected[0].Type != resource.Listener {
						t.Errorf("refused is %+v", p.Rejected)
					}
					if got := refusers(rev); len(got) != 0 {
						t.Errorf("%v refuse roots by which they are not to judge", got)
					}
				}
				if !slices.ContainsFunc(c.Messages(), func(m xdstest.Message) bool { return slices.Contains(m.Removed, rootsOfOthers) }) {
					t.Error("the roots are not taken from it")
				}
				if only == "" { // what it refused to lose is sent again when it is to judge again
					refuses.Store(false)
					rev := put(door(t, true), bundle("old"))
					if p := r.settle(t, rev); len(p.Rejected) != 0 {
						t.Errorf("when it accepts everything again, refused is %+v", p.Rejected)
					}
					c.Request(resource.Secret).Equals(t, bundle("old"))
				}
			})
		}
	}
}
