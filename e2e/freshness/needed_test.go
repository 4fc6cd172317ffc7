package freshness

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// revokeMany issues tokens of an application of their own and revokes all of them in
// one write.
func (p *play) revokeMany(n int) {
	of := name("app", "many")
	token := func(i int) string { return name("token", fmt.Sprint("many ", i)) }
	p.write(func(tx store.Tx) error {
		if err := present(tx, gateway.Applications, of, &gateway.Application{Consumer: owner("x"), ClientID: of, ClientSecret: of}); err != nil {
			return err
		}
		for i := range n {
			_, err := tx.Create(&model.Resource{Kind: gateway.Tokens, Scope: scope, Name: token(i), Spec: &gateway.Token{
				Credential: of, AccessToken: fmt.Sprint("many ", i), TokenType: gateway.TokenBearer, ExpiresIn: 7200,
			}})
			if err != nil {
				return err
			}
		}
		return nil
	})
	p.write(func(tx store.Tx) error {
		for i := range n {
			if err := tx.Delete(gateway.Tokens, scope, token(i), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// write is a change that has to succeed.
func (p *play) write(how func(store.Tx) error) {
	publish, abandon := p.plane.r.Begin()
	c, err := p.commit(p.plane, how)
	if err != nil {
		abandon()
	} else {
		err = publish(context.Background(), c)
	}
	if err != nil {
		p.fail("a write was answered %v", err)
	}
}

// Revocations of others do not cost a token that is in use its place in Redis: when
// the control plane has gone it goes on being accepted everywhere.
func TestWhatIsInUseOutlivesRevocationsOfOthers(t *testing.T) {
	s, n := newSite(t), &tried{}
	synctest.Test(t, func(t *testing.T) {
		p := begin(s, n, defects{}, false)
		defer p.end(t)
		p.need("with everything new")
		p.revokeMany(1 << 13) // of at most 1024 floors of a small cache
		p.need("after the revocations")
		p.mendAndLeave()
		if failure := p.failed(); failure != "" {
			t.Error(failure)
		}
	})
}

// What is issued or asked about while Redis is away is there soon after it has come
// back, although it has lost nothing and memory answers every request.
func TestWhatIsUsedWhileRedisIsAwayComesToRedis(t *testing.T) {
	s, n := newSite(t), &tried{}
	synctest.Test(t, func(t *testing.T) {
		p := begin(s, n, defects{}, false)
		defer p.end(t)
		p.route.refuse(true)
		time.Sleep(10 * time.Second) // by then nobody tries to write
		p.mint("minted")
		p.revokeMany(1) // what cannot be written there is why nobody believes it
		if d := p.refusing(p.hosts, "minted", time.Minute); d != 0 {
			t.Errorf("refused for %v while Redis is away", d)
		}
		p.route.refuse(false)
		time.Sleep(10 * time.Second)
		p.stopPlane()
		time.Sleep(contract.Lease)
		if d := p.refusing(p.hosts, "minted", time.Minute); d != 0 {
			t.Errorf("refused for %v while the control plane is away", d)
		}
		if failure := p.failed(); failure != "" {
			t.Error(failure)
		}
	})
}
