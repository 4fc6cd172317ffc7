package relay_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/xds/reserved"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// confiding is a cluster that asks for a secret.
func confiding(t *testing.T, name, secret string) *resource.Resource {
	t.Helper()
	packed, err := anypb.New(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: secret, SdsConfig: &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return xdstest.Freeze(resource.Cluster, name, &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS},
		TransportSocket: &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed}},
	})
}

// TestFleetingSecretsAreOnNoDisk: Envoy has the key that it presents to a service outside the mesh
// as long as the agent runs, with or without the control plane. The disk has not. An agent that
// starts without the control plane serves everything but the cluster that needs the key, and that
// one, too, once the control plane is back.
func TestFleetingSecretsAreOnNoDisk(t *testing.T) {
	dir, err := os.MkdirTemp("", "fleeting")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const private = "the private part"
	secret := xdstest.Freeze(resource.Secret, reserved.Fleeting+"mail:1", &tlsv3.Secret{
		Name: reserved.Fleeting + "mail:1",
		Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{Secret: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: private}}}},
	})
	mail, other := confiding(t, "mail", secret.Name), confiding(t, "other", "identity")
	p := startPlane(t, address(t))
	written := func(step string) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(dir, "cache"))
		if err != nil || bytes.Contains(raw, []byte(private)) {
			t.Errorf("%s: the disk has the key, %v", step, err)
		}
	}
	publish := func() uint64 { return p.publishWith(secret, mail, other, xdstest.Cluster("plain", 0)) }
	rev := publish()
	_, stop := startRelay(t, dir, p.addr)
	c := local(t, dir, xdstest.Options{Relay: true})
	c.Request(resource.Secret).Equals(t, secret)
	p.settle(t, rev)
	written("after a confirmation")
	p.kill()
	c.Close()
	c = local(t, dir, xdstest.Options{Relay: true})
	c.Request(resource.Secret).Equals(t, secret)
	c.Request(resource.Cluster).Equals(t, mail, other, xdstest.Cluster("plain", 0))
	c.Close()
	stop()

	_, stop = startRelay(t, dir, p.addr)
	c = local(t, dir, xdstest.Options{Relay: true})
	c.Request(resource.Cluster).Equals(t, other, xdstest.Cluster("plain", 0))
	c.See(func(v xdstest.View) {
		if names := v.Names(resource.Secret); len(names) > 0 {
			t.Errorf("after a start without the control plane there are %v", names)
		}
	})
	p = startPlane(t, p.addr)
	rev = publish()
	c.WaitFor(t, "the key", func(v xdstest.View) bool { return slices.Contains(v.Names(resource.Secret), secret.Name) })
	c.Request(resource.Cluster).Equals(t, mail, other, xdstest.Cluster("plain", 0))
	p.settle(t, rev)
	written("after a rewrite")
	stop()
}
