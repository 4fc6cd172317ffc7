package assembly

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/audit/trail"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/cloudapi"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/localsocket"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/outward"
	"github.com/meshgate/meshgate/controlplane/portal"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/version"
)

// cloudParts are the parts of the cloud API.
type cloudParts struct {
	// keys are what signer signs with.
	keys   *identity.AuditKeys
	signer *audit.Signer
	engine *delivery.Engine
	// foresee returns why nothing would be sent to a URL; see [outward.Options.Foresee].
	foresee func(string) error
	// accounts are the developers of portals.
	accounts *portal.Accounts
	// trail makes the audit log of the control plane itself.
	trail *trail.Trail
	// trusted are the networks of proxies that say for which clients they speak.
	trusted []netip.Prefix
	// local is the socket for administrators on this machine; nil if there is none.
	local net.Listener
}

// openTrail begins the audit log of the control plane itself. The gate has written nothing yet.
func (cp *ControlPlane) openTrail() {
	cp.cloud.trail = trail.New(trail.Options{Store: cp.store, Log: cp.Log, Now: time.Now, Organization: cp.authority.ID()})
	cp.gate.Report(cp.cloud.trail.Changed)
	cp.cloud.trail.Writer = cp.gate.As(model.System("audit"))
}

// openCloud opens what the cloud API needs.
func (cp *ControlPlane) openCloud(ctx context.Context) error {
	if text := cp.cfg.Cloud.Alone(); text != "" {
		cp.Log.Warn("only a part of the cloud API is served", "reason", text)
	}
	if err := cloud.EnsureFirst(ctx, cp.store, cp.gate.As(model.System("lifecycle"))); err != nil {
		return err
	}
	keys, err := identity.OpenAuditKeys(ctx, cp.store)
	if err != nil {
		return err
	}
	cp.cloud.keys, cp.cloud.signer = keys, audit.NewSigner(keys.Private)
	if cp.cloud.trusted, err = cp.cfg.Cloud.Trusted(); err != nil {
		return err
	}
	allowed, err := cp.cfg.Audit.Networks()
	if err != nil {
		return err
	}
	o := outward.Options{Allowed: allowed, Own: cp.listens}
	cp.cloud.foresee = o.Foresee
	verifying := outward.New(o)
	o.SkipVerify = true
	trusting := outward.New(o)
	cp.closers.add(func(context.Context) { verifying.Close(); trusting.Close() })
	sinks, err := cp.cfg.Audit.Sinks()
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // empty where the system does not say
	writer := cp.gate.As(model.System("audit"))
	cp.cloud.engine = delivery.New(delivery.Options{
		Store: cp.store, Writer: writer, Log: cp.Log, Now: time.Now, Signer: cp.cloud.signer,
		Clock: cp.clocks.wall, Commits: cp.commits, Sinks: sinks, ControlPlane: cp.cfg.Audit.ControlPlane,
		// One process at a time has a store; others stand by for its lock. So whoever held a lease before has ended.
		Leases:    lease.New(lease.Options{Writer: writer, Holder: cp.instance + "-" + uuid.NewString(), Sole: true}),
		Origin:    audit.Origin{Vendor: cp.cfg.Audit.Vendor, Host: cmp.Or(cp.cfg.Audit.Host, host, "localhost")},
		Verifying: verifying, Trusting: trusting, Gzip: cp.cfg.Audit.Gzip,
	})
	cp.cloud.accounts = portal.New(portal.Options{
		Store: cp.store, Writer: cp.gate.As(model.System("portal")), Log: cp.Log, Now: time.Now, Organization: cp.authority.ID(),
	})
	if cp.cloud.local, err = localsocket.Listen(ctx, filepath.Join(cp.cfg.StateDir, cloud.LocalSocket)); err != nil {
		return err
	}
	cp.closers.add(func(context.Context) { _ = cp.cloud.local.Close() })
	return nil
}

// waiting returns how many audit events wait to be delivered, and how many webhooks are inactive. They are
// not a number while the store cannot be read.
func (cp *ControlPlane) waiting() (events, inactive float64) {
	ctx, cancel := context.WithTimeout(context.Background(), gaugeTime)
	defer cancel()
	e, i, err := cp.cloud.engine.Waiting(ctx)
	if err != nil {
		return math.NaN(), math.NaN()
	}
	return float64(e), float64(i)
}

// listens reports whether this control plane listens at a port of an address of this machine.
func (cp *ControlPlane) listens(at netip.AddrPort) bool {
	return slices.Contains(cp.ownPorts(), int(at.Port())) && ofThisMachine(at.Addr())
}

// ownPorts are all ports at which this control plane listens.
func (cp *ControlPlane) ownPorts() (list []int) {
	for _, ln := range cp.ports.all() {
		list = append(list, port(ln))
	}
	return append(list, cp.redis.ports()...)
}

// ofThisMachine reports whether an address is one of this machine. If that cannot be found out, it is.
func ofThisMachine(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	list, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(list, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err == nil && p.Addr().Unmap() == a
	})
}

// cloudAPI is the cloud API for callers whom identify names, with the parts that the settings name.
func (cp *ControlPlane) cloudAPI(identify func(*http.Request) (model.Actor, error)) *cloudapi.API {
	return cloudapi.New(cp.cloudOptions(identify))
}

// localCloudAPI is the cloud API for administrators on this machine. It has all parts: tokens and
// destinations of another process are not in this store, so a process that serves regions only would
// have none at all.
func (cp *ControlPlane) localCloudAPI() *cloudapi.API {
	o := cp.cloudOptions(func(*http.Request) (model.Actor, error) { return model.Administrator(), nil })
	o.Global, o.Regional = true, true
	return cloudapi.New(o)
}

func (cp *ControlPlane) cloudOptions(identify func(*http.Request) (model.Actor, error)) cloudapi.Options {
	return cloudapi.Options{
		Store: cp.store, Gate: cp.gate, Log: cp.Log, Now: time.Now, Version: version.Program, Vendor: "meshgate", Identify: identify, Rules: cp.cfg.Access.StrictRules(),
		Global: cp.cfg.Cloud.Serves(config.CloudGlobal), Regional: cp.cfg.Cloud.Serves(config.CloudRegional),
		Accounts: cp.cloud.accounts, PortalDomain: cp.cfg.Cloud.PortalDomain, Hosts: cp.cfg.CloudHosts(), Trusted: cp.cloud.trusted, Signer: cp.cloud.signer, Planes: cp.planeOptions(),
		Refused: cp.cloud.trail.Refused, Foresee: cp.cloud.foresee,
	}
}

// identifyCloud returns the caller of the cloud API. That it comes from this machine gives nobody
// anything: browsers on this machine do, too, and every client of this API has a token.
func (cp *ControlPlane) identifyCloud(r *http.Request) (model.Actor, error) {
	c := cp.callers()
	c.local = false
	return c.Identify(r)
}

// tokenHolder returns who shows a personal access token.
func (cp *ControlPlane) tokenHolder(ctx context.Context, token string) (who model.Actor, err error) {
	err = cp.store.View(ctx, func(r store.Reader) error {
		who, err = cloud.TokenHolder(r, token, time.Now())
		return err
	})
	return who, err
}

// NewAccessToken returns a new personal access token of an administrator, in place of an earlier one of
// that name.
func (cp *ControlPlane) NewAccessToken(ctx context.Context, name string) (token string, err error) {
	token, digest := cloud.IssueToken()
	_, err = cp.gate.As(model.System("demo")).Write(ctx, model.Config, func(tx store.Tx) error {
		old, err := tx.Find(cloud.AccessTokens, "", cloud.IndexName, name)
		switch {
		case err == nil:
			err = tx.Delete(cloud.AccessTokens, "", old.Name, old.Version)
		case fault.Is(err, fault.NotFound):
			err = nil
		}
		if err != nil {
			return err
		}
		_, err = tx.Create(&model.Resource{Kind: cloud.AccessTokens, Name: uuid.NewString(), Created: time.Now(), Spec: &cloud.AccessToken{Name: name, Role: "admin", Digest: digest}})
		return err
	})
	return token, err
}

// serveCloud serves the cloud API with a function that serves a handler at a port.
func (cp *ControlPlane) serveCloud(serve func(name string, h http.Handler, ln net.Listener), encrypted net.Listener) {
	api := cp.cloudAPI(cp.identifyCloud).Handler()
	serve("cloud", api, cp.ports.cloud)
	serve("cloud_tls", api, encrypted)
	serve("cloud_local", cp.localCloudAPI().Handler(), cp.cloud.local)
}
