package meshca

import (
	"fmt"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// rotationAct is one event in a mesh under rotation.
type rotationAct struct {
	Do string
	// Proxy and Pair are indexes.
	Proxy, Pair int
}

// modelProxy holds what it was sent. The roots and the identity arrive separately.
type modelProxy struct {
	connected          bool
	roots              []byte
	issuer             string
	rootsRev, identRev uint64
}

type rotationModel struct {
	*rotationTest
	proxies []*modelProxy
	pairs   []*identity.KeyPair
	asked   *identity.KeyPair
	known   map[string]bool
}

func newRotationModel(t testing.TB, proxies int) *rotationModel {
	m := &rotationModel{rotationTest: newRotationTest(t, memstore.New()), known: map[string]bool{}}
	for range 4 {
		m.pairs = append(m.pairs, m.pair())
	}
	m.builtin("m")
	m.asked = m.pairs[0]
	m.ask("m", m.asked)
	for i := range proxies {
		m.set(mesh.Dataplanes, "m", fmt.Sprint(i), &mesh.Dataplane{})
		m.proxies = append(m.proxies, &modelProxy{})
		m.act(rotationAct{Do: "connect", Proxy: i})
	}
	return m
}

func (m *rotationModel) act(a rotationAct) {
	p, name := m.proxies[a.Proxy], fmt.Sprint(a.Proxy)
	switch a.Do {
	case "ask":
		m.asked = m.pairs[a.Pair]
		m.ask("m", m.asked)
	case "ask with half a pair":
		m.set(mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: m.pairs[a.Pair].Certificate})
		m.changed("m")
		m.ask("m", m.asked)
	case "roots", "identity", "connect":
		tr, rev := m.trust("m")
		if p.connected == (a.Do == "connect") {
			return
		}
		if a.Do != "identity" {
			p.roots, p.rootsRev = tr.Roots, rev
		}
		if a.Do != "roots" {
			p.issuer, p.identRev = tr.Issuer, rev
		}
		p.connected = true
		m.progress.confirm("m", name, min(p.rootsRev, p.identRev))
		m.r.ProxiesChanged("m")
	case "disconnect":
		p.connected = false
		m.progress.disconnect("m", name)
	case "crash":
		m.stop()
		m.start()
	}
	synctest.Wait()
}

// refused returns an error if one connected proxy refuses another one.
func (m *rotationModel) refused() error {
	for i, client := range m.proxies {
		for j, server := range m.proxies {
			if !client.connected || !server.connected {
				continue
			}
			key := client.issuer + string(server.roots)
			if _, ok := m.known[key]; !ok {
				m.known[key] = m.verifies(m.leaves[client.issuer], server.roots)
			}
			if !m.known[key] {
				return fmt.Errorf("proxy %d refuses proxy %d", j, i)
			}
		}
	}
	return nil
}

// settle makes all proxies connect and take everything, as often as the longest rotation
// needs, and reports deviations from what was asked for.
func (m *rotationModel) settle() error {
	for range 4 {
		for i := range m.proxies {
			for _, do := range []string{"connect", "roots", "identity"} {
				m.act(rotationAct{Do: do, Proxy: i})
				if err := m.refused(); err != nil {
					return err
				}
			}
		}
	}
	want := (&Authority{Backend: "ca", Current: *m.asked}).trust()
	if got, _ := m.trust("m"); got.Issuer != want.Issuer || string(got.Roots) != string(want.Roots) {
		return fmt.Errorf("the mesh does not end with what was asked for, but in phase %q", m.state("m").Phase)
	}
	return nil
}

// TestRotationNeverRefuses drives random rotations over proxies that take what they are sent
// late and in parts. No connected proxy ever refuses another one, and in the end the mesh
// has the authority that was asked for last, and no other.
func TestRotationNeverRefuses(t *testing.T) {
	acts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) rotationAct {
		return rotationAct{
			Do: rapid.SampledFrom([]string{
				"roots", "identity", "roots", "identity", "roots", "identity", "roots", "identity",
				"ask", "ask with half a pair", "connect", "disconnect", "crash",
			}).Draw(t, "do"),
			Proxy: rapid.IntRange(0, 2).Draw(t, "proxy"), Pair: rapid.IntRange(0, 3).Draw(t, "pair"),
		}
	}), 1, 80)
	rapid.Check(t, func(rt *rapid.T) {
		script := acts.Draw(rt, "acts")
		var failed error
		synctest.Test(t, func(t *testing.T) {
			m := newRotationModel(t, 3)
			defer m.close()
			for i, a := range script {
				m.act(a)
				if err := m.refused(); err != nil {
					failed = fmt.Errorf("after act %d: %w", i, err)
					return
				}
			}
			m.noGap()
			failed = m.settle()
		})
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}
