package server_test

import (
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// TestSecretsThatAProxyMayNoLongerHaveAreTaken: an agent is told to forget a secret that its set no
// longer names, though no resource of the set is another and everything before was confirmed.
func TestSecretsThatAProxyMayNoLongerHaveAreTaken(t *testing.T) {
	secret := identity(t, 1)
	r := setup(t, func(c *server.Config) { c.Secrets = &maker{body: secret} })
	table := map[resource.TypeURL]*resource.Table{resource.Cluster: resource.TableOf([]*resource.Resource{xdstest.Cluster("c", 0)})}
	publish := func(rev uint64, secrets map[string]string) {
		r.snaps.Publish(map[string]*resource.Set{nodeID: resource.Assemble(table, secrets)}, rev)
	}
	publish(1, map[string]string{"identity": ""})
	c := r.dial(t, xdstest.Options{Relay: true})
	c.Request(resource.Secret).Equals(t, secret)
	r.waitFor(t, func(p snapshot.Progress) bool { return len(p.Acknowledged) == 1 && len(p.Waiting) == 0 })
	publish(2, nil)
	c.WaitFor(t, "the secret is gone", func(v xdstest.View) bool { return len(v.Names(resource.Secret)) == 0 })
}
