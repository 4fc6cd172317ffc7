package health

import (
	"strings"
	"testing"
	"time"
)

// TestCertificates: a certificate is reported in the last sixth of its life, but at most 30
// days before its end. The first to end counts. A caller that waits until next misses no
// change.
func TestCertificates(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	leaf := Certificate{What: "the leaf", Do: "renew it", NotBefore: start, NotAfter: start.Add(30 * day)}
	authority := Certificate{What: "the authority", Do: "replace it", NotBefore: start, NotAfter: start.Add(3650 * day)}
	for _, tc := range []struct {
		name   string
		all    []Certificate
		at     time.Duration
		reason string
		text   string
		next   time.Duration
	}{
		{"none", nil, 0, "", "", -1},
		{"new", []Certificate{authority, leaf}, 0, "", "", 25 * day},
		{"a sixth is left", []Certificate{authority, leaf}, 25 * day, "ends_soon", "the leaf ends at 2026-01-31T00:00:00Z, in 5 days: renew it", 30 * day},
		{"over", []Certificate{authority, leaf}, 30 * day, "expired", "the leaf expired at 2026-01-31T00:00:00Z, 0s ago: renew it", 3620 * day},
		{"over for long", []Certificate{leaf}, 33*day + time.Hour, "expired", "the leaf expired at 2026-01-31T00:00:00Z, 3 days ago: renew it", -1},
		{"an authority", []Certificate{authority}, 3620 * day, "ends_soon", "the authority ends at 2035-12-30T00:00:00Z, in 30 days: replace it", 3650 * day},
	} {
		f, next := Certificates(start.Add(tc.at), tc.all)
		want := time.Time{}
		if tc.next >= 0 {
			want = start.Add(tc.next)
		}
		if f.Reason != tc.reason || f.Text != tc.text || (f.State == OK) != (tc.reason == "") || !next.Equal(want) {
			t.Errorf("%s: %+v, next %s, want %s", tc.name, f, next, want)
		}
	}
}

// TestEveryCertificate: a certificate that ended long ago hides none that can still be
// renewed, and texts are bounded.
func TestEveryCertificate(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	ending := func(what string, left time.Duration) Certificate {
		return Certificate{What: what, Do: "renew it", NotBefore: start.Add(-365 * day), NotAfter: start.Add(left)}
	}
	many := []Certificate{ending("a", -3*day), ending("b", 300*day), ending("c", 9*day), ending("d", 4*day)}
	f, next := EveryCertificate(start, many)
	if f.State != Degraded || f.Reason != "ends_soon" || !next.Equal(start.Add(4*day)) ||
		f.Text != "d ends at 2026-01-05T00:00:00Z, in 4 days; c ends at 2026-01-10T00:00:00Z, in 9 days; a expired at 2025-12-29T00:00:00Z, 3 days ago: renew it" {
		t.Errorf("%+v, next %s", f, next)
	}
	if f, _ := EveryCertificate(start, many[:2]); f.Reason != "expired" {
		t.Errorf("%+v", f)
	}
	if f, next := EveryCertificate(start, many[1:2]); f.State != OK || next.IsZero() {
		t.Errorf("%+v, next %s", f, next)
	}
	for range 4 {
		many = append(many, ending("e", day))
	}
	if f, _ := EveryCertificate(start, many); !strings.Contains(f.Text, "; and 2 more: renew it") || strings.Count(f.Text, ";") != maxEndings {
		t.Errorf("%s", f.Text)
	}
}
