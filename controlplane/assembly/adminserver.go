package assembly

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/declarative"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/version"
)

// readOnlyText is what writers learn while entities come from a file.
const readOnlyText = "The gateway's entities come from a declarative file (setting gateway.declarative): change the file and start meshgate again"

// openAdminToken reads the token of the administration API before anything is
// opened that it protects.
func (cp *ControlPlane) openAdminToken(context.Context) (err error) {
	cp.AdminToken, err = cp.cfg.Admin.Secret()
	if err != nil {
		return err
	}
	if ip := net.ParseIP(cp.cfg.Admin.Listen); ip != nil && !ip.IsLoopback() {
		cp.Log.Warn("the administration token can be overheard on the port without TLS: use admin.tlsPort, and keep the other from the network",
			"admin_port", cp.cfg.Admin.Port, "tls_port", cp.cfg.Admin.TLSPort)
	}
	return nil
}

// adminAPI is the administration API. Callers that show a token need no guard
// against names and proxies: no browser sends it by itself.
func (cp *ControlPlane) adminAPI() *gatewayapi.API {
	o := cp.adminOptions()
	if cp.cfg.Gateway.Declarative != "" {
		o.ReadOnly = readOnlyText
	}
	return gatewayapi.New(o)
}

func (cp *ControlPlane) adminOptions() gatewayapi.Options {
	proved := cp.AdminToken != "" || cp.cfg.Access.IdentityNeeded()
	return gatewayapi.Options{
		Store: cp.store, Gate: cp.gate, Collections: gatewayapi.Collections(), Progress: progress{cp.loop, cp.snapshots, cp.nodes, cp.store.Revision}, Log: cp.Log,
		Now: time.Now, Version: version.Program, Token: cp.AdminToken, Identify: cp.identifyAdmin, Rules: cp.cfg.Access.Rules(), Revocations: &oauth.Revocations{Store: cp.store, Resolver: cp.resolver, Writer: cp.gate},
		Proxies: gatewayProxies{cp, make(chan struct{}, clustersAtOnce)}, Nodes: cp.nodes, Dumps: cp.dumps, Explain: cp.explainedGateways(), DryRun: cp.dryRuns(), Conditions: cp.conditions,
		Guard: &httpkit.BrowserGuard{Tokens: true, AnyHost: proved, Proxied: proved},
	}
}

// openDeclarative makes the gateway's entities those of the file, if there is one.
func (cp *ControlPlane) openDeclarative(ctx context.Context) error {
	name := cp.cfg.Gateway.Declarative
	if name == "" {
		return nil
	}
	data, err := os.ReadFile(name) //nolint:gosec // the operator names this file
	if err != nil {
		return fmt.Errorf("gateway.declarative (environment %s): %w", config.EnvName("gateway.declarative"), err)
	}
	file, err := declarative.Parse(name, data, declarable())
	if err != nil {
		return err
	}
	if err := file.Resolve(cp.gate, model.DefaultControlPlane); err != nil {
		return err
	}
	commit, err := file.Apply(ctx, cp.gate.As(model.System("declarative")), model.DefaultControlPlane)
	if err != nil {
		return err
	}
	cp.Log.Info("the gateway's entities come from a file", "file", name, "changes", len(commit.Changes))
	return nil
}

// declarable are the kinds that a file may hold: those of the administration
// API but tokens, which are issued and not declared.
func declarable() (kinds []*model.Kind) {
	for _, c := range gatewayapi.Collections() {
		if c.Kind != gateway.Tokens {
			kinds = append(kinds, c.Kind)
		}
	}
	return kinds
}
