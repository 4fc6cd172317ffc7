package oauth

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// boundary lists the time before, at and after an end.
var boundary = []struct {
	name   string
	offset time.Duration
	alive  bool
}{{"before", -1, true}, {"at", 0, false}, {"after", 1, false}}

func TestCodeEnds(t *testing.T) {
	for _, b := range boundary {
		t.Run(b.name, func(t *testing.T) {
			for _, behind := range []time.Duration{0, 48 * time.Hour} {
				w := newWorld(t, strict())
				w.behind = behind
				code := w.newCode()
				w.now = w.now.Add(codeLife + b.offset)
				status, doc := w.post("token", "grant_type=authorization_code&"+asApp+"&code_verifier="+verifier+"&code="+code)
				if (status == 200) != b.alive {
					t.Errorf("with rows kept for %v: %d %v", behind, status, doc)
				}
			}
		})
	}
}

// TestRowEnds: access and refresh tokens end with their row. The access token also ends with
// its own life, whose last second is valid.
func TestRowEnds(t *testing.T) {
	for _, b := range boundary {
		t.Run(b.name, func(t *testing.T) {
			for _, behind := range []time.Duration{0, 48 * time.Hour} {
				cfg := strict()
				cfg.TokenExpiration = 5000
				w := newWorld(t, cfg)
				w.behind = behind
				access, refresh := w.newPair()
				w.now = w.now.Add(1000*time.Second + b.offset)
				if got := w.lives(access); got != b.alive {
					t.Errorf("with rows kept for %v the access token lives: %t", behind, got)
				}
				status, doc := w.post("token", "grant_type=refresh_token&"+asApp+"&refresh_token="+refresh)
				if (status == 200) != b.alive {
					t.Errorf("with rows kept for %v, refresh: %d %v", behind, status, doc)
				}
			}
		})
		t.Run(b.name+" the access token", func(t *testing.T) {
			w := newWorld(t, strict())
			access, refresh := w.newPair()
			w.now = time.Unix(w.now.Unix()+60+1, 0).Add(b.offset)
			if got := w.lives(access); got != b.alive {
				t.Errorf("it lives: %t", got)
			}
			if status, doc := w.post("token", "grant_type=refresh_token&"+asApp+"&refresh_token="+refresh); status != 200 {
				t.Errorf("refresh of an expired token: %d %v", status, doc)
			}
		})
	}
}

// TestGraceEnds: within the grace a spent refresh token yields its pair once more; after the
// grace, its use revokes the family.
func TestGraceEnds(t *testing.T) {
	for _, b := range boundary {
		t.Run(b.name, func(t *testing.T) {
			w := newWorld(t, strict())
			_, refresh := w.newPair()
			body := "grant_type=refresh_token&" + asApp + "&refresh_token=" + refresh
			_, lost := w.post("token", body)
			w.now = w.now.Add(10*time.Second + b.offset)
			status, doc := w.post("token", body)
			if (status == 200) != b.alive {
				t.Errorf("%d %v", status, doc)
			}
			if got := w.lives(lost["access_token"].(string)); got != b.alive {
				t.Errorf("the family lives: %t", got)
			}
		})
	}
}

// TestRenewal: the use of a reusable refresh token renews the life of its row.
func TestRenewal(t *testing.T) {
	cfg := strict()
	cfg.ReuseRefreshToken = true
	w := newWorld(t, cfg)
	_, refresh := w.newPair()
	for range 3 {
		w.now = w.now.Add(900 * time.Second)
		status, doc := w.post("token", "grant_type=refresh_token&"+asApp+"&refresh_token="+refresh)
		if status != 200 || doc["refresh_token"] != refresh || !w.lives(doc["access_token"].(string)) {
			t.Fatalf("%d %v", status, doc)
		}
	}
	if n := w.count(gateway.Tokens); n != 1 {
		t.Errorf("%d rows", n)
	}
	w.now = w.now.Add(1000 * time.Second)
	if status, _ := w.post("token", "grant_type=refresh_token&"+asApp+"&refresh_token="+refresh); status != 400 {
		t.Errorf("a row that ended was refreshed: %d", status)
	}
}

// TestSpentValuesEnd: spent values are forgotten after some time.
func TestSpentValuesEnd(t *testing.T) {
	for _, ttl := range []int64{0, 1000} {
		cfg := strict()
		cfg.RefreshTokenTTL = ttl
		w := newWorld(t, cfg)
		w.newPair()
		if n := w.count(gateway.SpentValues); n != 1 {
			t.Errorf("%d spent values after an exchange", n)
		}
		life := spentLife
		if ttl > 0 {
			life = time.Duration(ttl) * time.Second
		}
		w.now = w.now.Add(life)
		if n := w.count(gateway.SpentValues); n != 0 {
			t.Errorf("%d spent values are left after %v", n, life)
		}
	}
}
