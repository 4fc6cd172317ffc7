package insight_test

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/insight"
)

// TestUpdated: an insight changed last when the newest of what it tells happened.
func TestUpdated(t *testing.T) {
	at := func(minute int) *time.Time {
		t := time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC)
		return &t
	}
	stream := func(connect int, disconnect, status *time.Time) insight.Subscription {
		return insight.Subscription{ConnectTime: *at(connect), DisconnectTime: disconnect, Status: insight.StreamStatus{LastUpdateTime: status}}
	}
	zone := func(connect int, disconnect, status *time.Time) insight.ZoneSubscription {
		return insight.ZoneSubscription{ConnectTime: *at(connect), DisconnectTime: disconnect, Status: insight.ZoneStatus{LastUpdateTime: status}}
	}
	for name, tc := range map[string]struct {
		of   interface{ Updated() time.Time }
		want int
	}{
		"a stream begins":            {&insight.DataplaneInsight{Subscriptions: []insight.Subscription{stream(1, at(2), nil), stream(3, nil, nil)}}, 3},
		"a stream ends":              {&insight.DataplaneInsight{Subscriptions: []insight.Subscription{stream(1, at(5), at(3)), stream(4, nil, nil)}}, 5},
		"something was acknowledged": {&insight.DataplaneInsight{Subscriptions: []insight.Subscription{stream(1, nil, at(6))}}, 6},
		"an identity was given": {&insight.DataplaneInsight{
			Subscriptions: []insight.Subscription{stream(1, at(2), nil)}, MTLS: &insight.MTLS{LastCertificateRegeneration: *at(7), CertificateExpirationTime: *at(59)},
		}, 7},
		"a zone comes":             {&insight.ZoneInsight{Subscriptions: []insight.ZoneSubscription{zone(1, at(2), nil), zone(3, nil, nil)}}, 3},
		"a zone leaves":            {&insight.ZoneInsight{Subscriptions: []insight.ZoneSubscription{zone(1, at(5), at(4))}}, 5},
		"something was brought in": {&insight.ZoneInsight{Subscriptions: []insight.ZoneSubscription{zone(1, nil, at(6))}}, 6},
	} {
		if got := tc.of.Updated(); !got.Equal(*at(tc.want)) {
			t.Errorf("%s: %v, want %v", name, got, *at(tc.want))
		}
	}
}
