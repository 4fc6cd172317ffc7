package freshness

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// mint issues a token as the OAuth server does: nothing in the log says that it is
// there, so a Redis that is put in order under a new epoch has no record of it.
func (p *play) mint(value string) {
	p.write(func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Tokens, Scope: scope, Name: name("token", value), Spec: &gateway.Token{
			Credential: app("x"), AccessToken: value, TokenType: gateway.TokenBearer, ExpiresIn: 7200,
		}})
		return err
	})
}

// refusing asks some filters about a token, again and again for a time, and returns
// for how long not all of them accepted it.
func (p *play) refusing(of []*host, value string, within time.Duration) (total time.Duration) {
	const step = 50 * time.Millisecond
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(step) {
		answers, asked := make(chan contract.Answer, len(of)), time.Now()
		for _, h := range of {
			p.check(h, value, func(a contract.Answer) { answers <- a })
		}
		good := true
		for range of {
			good = <-answers == contract.Found && good
		}
		if !good {
			total += time.Since(asked) + step
		}
	}
	return total
}

// A control plane that takes its time to plan its nodes refuses no good token: until
// it can answer questions, filters read what Redis vouched for. After one that was
// killed Redis is vouched for anew when the leases of that are over, whether or not
// anybody is planned; what is in use is there a moment later.
func TestPlanningRefusesNobody(t *testing.T) {
	s, n := newSite(t), &tried{}
	const moment = 300 * time.Millisecond
	for _, tt := range []struct {
		kill     bool
		planning time.Duration
		refusing time.Duration // at most
	}{
		{false, 1500 * time.Millisecond, 0},
		{false, 5 * time.Second, 0},
		{true, 500 * time.Millisecond, 0},
		{true, 1500 * time.Millisecond, 0},
		{true, 2500 * time.Millisecond, 0},
		{true, 5 * time.Second, moment},
	} {
		t.Run(fmt.Sprintf("killed %v, planned after %v", tt.kill, tt.planning), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := begin(s, n, defects{}, false)
				defer p.end(t)
				p.mint("minted")
				if d := p.refusing(p.hosts, "minted", time.Second); d != 0 {
					t.Errorf("refused for %v at first", d)
				}
				p.planning = tt.planning
				if tt.kill {
					p.killPlane()
				} else {
					p.stopPlane()
				}
				p.hosts[0].unlink(true) // one that is known does not come back
				time.Sleep(contract.Lease)
				p.startPlane()
				if d := p.refusing(p.hosts[1:], "minted", 10*time.Second); d > tt.refusing {
					t.Errorf("refused for %v", d)
				}
				if failure := p.failed(); failure != "" {
					t.Error(failure)
				}
			})
		})
	}
}
