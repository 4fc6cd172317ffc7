package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/agent"
	"github.com/meshgate/meshgate/controlplane/assembly"
	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/resolver"
	"github.com/meshgate/meshgate/controlplane/telemetry"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// dataplaneFlags are the flags that only this command has.
type dataplaneFlags struct {
	proxyType, cpAddress, caFile, controlPlane, mesh, name, tokenFile, certFile, keyFile, dataplaneFile, systemCAFile string
	variables                                                                                                         []string
	adminPort, dnsPort                                                                                                int
	dnsUpstreams, externalNames                                                                                       []string
}

const (
	proxyGateway   = "oauth-gateway"
	proxySidecar   = "sidecar"
	proxyBuiltin   = "gateway"   // of a mesh
	proxyDataplane = "dataplane" // another name for sidecar
	proxyIngress   = mesh.ProxyIngress
	proxyEgress    = mesh.ProxyEgress
)

// maxDataplaneFile bounds the size of the file in bytes.
const maxDataplaneFile = 512 << 10

func dataplaneCommand() *cobra.Command {
	var f dataplaneFlags
	c := &cobra.Command{
		Use:   "dataplane",
		Short: "Run one Envoy of a given type",
		Long:  "Run one Envoy of a given type, with the ca.pem of its control plane, and a token or certificate." + cli.SettingsHelp,
		Example: `  meshgate dataplane --proxy-type oauth-gateway --name gateway-2 --ca-cert-file ca.pem \
    --cp-address https://cp.example:5678 --dataplane-token-file gateway-2.token`,
		Args: cobra.NoArgs,
		// The name of the state's folder depends on these flags.
		PreRunE: func(*cobra.Command, []string) error { return fault.NotBegun(f.check()) },
		RunE: withStateBelow(f.folder, func(ctx context.Context, l *config.Loaded, _ io.Writer) error {
			a, err := openDataplane(ctx, &l.Config, &f)
			if err != nil {
				return err
			}
			return a.Run(ctx)
		}),
	}
	c.Flags().StringVar(&f.proxyType, "proxy-type", "", "sidecar, gateway, ingress, egress or oauth-gateway")
	c.Flags().StringVar(&f.cpAddress, "cp-address", "https://127.0.0.1:5678", "data-plane server")
	c.Flags().StringVar(&f.caFile, "ca-cert-file", "", "ca.pem of the control plane")
	c.Flags().StringVar(&f.controlPlane, "control-plane", model.DefaultControlPlane, "an oauth-gateway's control plane or group")
	c.Flags().StringVar(&f.mesh, "mesh", mesh.Default, "mesh of a sidecar or gateway")
	c.Flags().StringVar(&f.name, "name", "", "instance, or resource, of the node token")
	c.Flags().StringVar(&f.tokenFile, "dataplane-token-file", "", "file with the node token, read for every connection")
	c.Flags().StringVar(&f.certFile, "client-cert-file", "", "certificate instead of a token; with --client-key-file")
	c.Flags().StringVar(&f.keyFile, "client-key-file", "", "private key of --client-cert-file")
	c.Flags().StringVar(&f.dataplaneFile, "dataplane-file", "", "a Dataplane, ZoneIngress or ZoneEgress to register")
	c.Flags().StringArrayVar(&f.variables, "dataplane-var", nil, "key=value, for {{ key }} in the Dataplane file; repeatable")
	c.Flags().IntVar(&f.adminPort, "admin-port", 0, "loopback port of Envoy's administration; 0: a Unix socket")
	c.Flags().IntVar(&f.adminPort, "admin-interface-port", 0, "the same as --admin-port")
	c.Flags().IntVar(&f.dnsPort, "dns-port", 0, "loopback port for DNS with the names of the mesh; 0: none")
	c.Flags().StringArrayVar(&f.dnsUpstreams, "dns-upstream", nil, "resolver for other names; repeatable; else the machine's")
	c.Flags().StringArrayVar(&f.externalNames, "external-name", nil, "name, and those below it, that an egress may lead to; * all")
	c.Flags().StringVar(&f.systemCAFile, "system-ca-file", "", "public authorities, in PEM; empty: the system's")
	c.Flags().Lookup("admin-interface-port").Hidden = true // one of the two names is enough in the help
	c.Flags().Lookup("client-key-file").Hidden = true      // the other flag names it
	c.Flags().Lookup("dns-upstream").Hidden = true         // few need these, and docs/mesh.md has them
	c.Flags().Lookup("system-ca-file").Hidden = true
	cli.AddFlags(c, cli.Only(cli.ProxySettings...))
	return c
}

// folder returns the folder of a proxy's state below the default state directory. Each proxy
// has its own, so that several can run on one machine without any setting.
func (f *dataplaneFlags) folder() string {
	if f.proxyType == proxyGateway {
		return filepath.Join("gateways", filepath.Base(f.controlPlane)+"."+f.name)
	}
	return filepath.Join("proxies", f.dir())
}

// ofZone reports whether the proxy is one of a zone.
func (f *dataplaneFlags) ofZone() bool { return mesh.ZoneKind(f.proxyType) != nil }

// plane is the scope of the control plane. Gateways may be told its name, and the token has the scope.
// What that is good for is judged by the control plane; a token that cannot be read is refused later.
func (f *dataplaneFlags) plane() string {
	if f.proxyType == proxyGateway && f.controlPlane != model.DefaultControlPlane {
		if token, err := os.ReadFile(f.tokenFile); err == nil {
			if scope := identity.GatewayPlane(strings.TrimSpace(string(token))); scope != "" {
				return scope
			}
		}
	}
	return f.controlPlane
}

// dir returns the name of the run directory of a proxy of a mesh or zone.
func (f *dataplaneFlags) dir() string {
	if f.ofZone() {
		return agent.ZoneDir(f.proxyType, f.name)
	}
	return f.mesh + "." + f.name
}

func openDataplane(ctx context.Context, cfg *config.Config, f *dataplaneFlags) (*agent.Agent, error) {
	if m := cfg.Filter.Of(); m != contract.ModeModule && f.proxyType != proxyGateway {
		return nil, fault.NotBegun(fmt.Errorf("filter.mode %s is for gateways only: a sidecar has the module (filter.mode %s)", m, contract.ModeModule))
	}
	envoy, line, err := assembly.FindEnvoy(cfg.Envoy.Path)
	if err != nil {
		return nil, err
	}
	filter, err := assembly.FindFilter(ctx, cfg, envoy)
	if err != nil {
		return nil, err
	}
	o := agent.Options{
		StateDir: cfg.StateDir, ControlPlane: f.plane(), Named: f.controlPlane, Name: f.name, Address: f.cpAddress, CAFile: f.caFile, TokenFile: f.tokenFile,
		Instance: assembly.Instance(cfg), EnvoyPath: envoy, AdminPort: f.adminPort,
		Concurrency: cfg.Envoy.Concurrency, LogLevel: cfg.Envoy.LogLevel, Drain: agent.Drain(cfg.Drain), StatusAddress: assembly.StatusAddress(cfg),
		Abort: aborted(ctx), Cache: assembly.CacheSettings(cfg), Log: cfg.Log.Logger(),
	}
	if o.WorkloadAddresses, err = cfg.Workload.Networks(); err != nil {
		return nil, fault.NotBegun(err)
	}
	if err := assembly.FreeStatusPort(cfg); err != nil {
		return nil, err
	}
	if o.AccessLog, err = assembly.AccessLogFile(&cfg.AccessLog); err != nil {
		return nil, fault.NotBegun(err)
	}
	if o.LogDirectories, err = cfg.AccessLog.Directories(); err != nil {
		return nil, fault.NotBegun(err)
	}
	if o.SystemCAFile, err = f.systemCA(); err != nil {
		return nil, fault.NotBegun(err)
	}
	if o.ExternalNames, err = f.external(); err != nil {
		return nil, fault.NotBegun(err)
	}
	if o.DNS, err = f.dns(); err != nil {
		return nil, fault.NotBegun(err)
	}
	if f.certFile != "" {
		o.Certificate = &agent.ClientCertificate{CertFile: f.certFile, KeyFile: f.keyFile}
	}
	o.Access = os.Stdout
	if f.proxyType == proxyGateway {
		err = assembly.FreeGatewayPorts(ctx, cfg, f.name, o.Log)
	} else if o.Sidecar, err = f.sidecar(); err == nil {
		// Only its Dataplane tells which ports the sidecar opens, so they are not checked
		// here.
		err = agent.EndPredecessor(ctx, cfg.StateDir, f.dir(), cfg.Drain.Timeout, o.Log)
	}
	if err != nil {
		return nil, fault.NotBegun(err)
	}
	o.Log = slog.New(telemetry.NewLog(o.Log.Handler()))
	filter.Into(&o, line)
	a, err := agent.New(o)
	if err != nil {
		return nil, fault.NotBegun(err)
	}
	return assembly.MeterNode(a), nil
}

func (f *dataplaneFlags) check() error {
	if _, err := f.external(); err != nil {
		return err
	}
	switch {
	case !slices.Contains([]string{proxyGateway, proxySidecar, proxyBuiltin, proxyDataplane, proxyIngress, proxyEgress}, f.proxyType):
		return fmt.Errorf("--proxy-type %q is none that exists; use oauth-gateway, sidecar, gateway, ingress or egress", f.proxyType)
	case (f.certFile == "") != (f.keyFile == ""):
		return errors.New("--client-cert-file and --client-key-file belong together")
	case f.certFile != "" && f.proxyType != proxyGateway:
		return errors.New("--client-cert-file is for oauth-gateways")
	case f.certFile != "" && f.tokenFile != "":
		return errors.New("--client-cert-file takes the place of --dataplane-token-file: use one of them")
	case f.caFile == "" || f.tokenFile == "" && f.certFile == "":
		return errors.New("--ca-cert-file and --dataplane-token-file are needed")
	case f.adminPort < 0 || f.adminPort > 65535:
		return fmt.Errorf("--admin-port %d is no port", f.adminPort)
	case f.dnsPort < 0 || f.dnsPort > 65535:
		return fmt.Errorf("--dns-port %d is no port", f.dnsPort)
	case (f.proxyType == proxyGateway || f.proxyType == proxyBuiltin || f.ofZone()) && f.dnsPort != 0:
		return errors.New("--dns-port is for sidecars")
	case f.dnsPort == 0 && len(f.dnsUpstreams) > 0:
		return errors.New("--dns-upstream needs --dns-port")
	case f.proxyType != proxyEgress && len(f.externalNames) > 0:
		return errors.New("--external-name is for egresses")
	case f.proxyType == proxyGateway && (f.dataplaneFile != "" || len(f.variables) > 0):
		return errors.New("--dataplane-file and --dataplane-var are for proxies of a mesh or zone")
	case f.ofZone():
		return agent.CheckZoneProxy(f.name)
	case f.proxyType != proxyGateway:
		return agent.CheckSidecar(f.mesh, f.name)
	}
	if err := identity.CheckInstance(f.name); err != nil {
		return fmt.Errorf("--name %q: %w", f.name, err)
	}
	return nil
}

// systemCA returns the absolute path of the file with the public authorities, which must hold some;
// empty if the agent looks for it.
func (f *dataplaneFlags) systemCA() (string, error) {
	if f.systemCAFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.systemCAFile)
	if err != nil {
		return "", fmt.Errorf("--system-ca-file: %w", err)
	}
	if _, n := pemtext.Certificates(text); n == 0 {
		return "", fmt.Errorf("--system-ca-file %s holds no certificates in PEM", f.systemCAFile)
	}
	return filepath.Abs(f.systemCAFile)
}

// external returns the names that an egress may lead to.
func (f *dataplaneFlags) external() (names []hostname.Suffix, err error) {
	for _, text := range f.externalNames {
		s, err := hostname.ParseSuffix(text)
		if err != nil {
			return nil, fmt.Errorf("--external-name: %w", err)
		}
		names = append(names, s)
	}
	return names, nil
}

// dns returns where a sidecar answers for host names, nil if it does not.
func (f *dataplaneFlags) dns() (*agent.DNS, error) {
	if f.dnsPort == 0 {
		return nil, nil //nolint:nilnil // nil is none
	}
	d := &agent.DNS{Port: uint16(f.dnsPort)} //nolint:gosec // checked
	for _, text := range f.dnsUpstreams {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			var ip netip.Addr
			if ip, err = netip.ParseAddr(text); err == nil {
				at = netip.AddrPortFrom(ip, resolver.Port)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("--dns-upstream %q is no address, with or without a port", text)
		}
		d.Upstreams = append(d.Upstreams, at)
	}
	return d, nil
}

// sidecar reads the Dataplane file, if there is one.
func (f *dataplaneFlags) sidecar() (*agent.Sidecar, error) {
	s := &agent.Sidecar{Mesh: f.mesh}
	if f.ofZone() {
		s.Mesh, s.ZoneType = "", f.proxyType
	}
	if f.dataplaneFile == "" {
		if len(f.variables) > 0 {
			return nil, errors.New("--dataplane-var needs --dataplane-file")
		}
		return s, nil
	}
	variables := map[string]string{}
	for _, v := range f.variables {
		key, value, ok := strings.Cut(v, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fmt.Errorf("--dataplane-var %q is not key=value", v)
		}
		variables[key] = value
	}
	file, err := os.Open(f.dataplaneFile)
	if err != nil {
		return nil, fmt.Errorf("--dataplane-file: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxDataplaneFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--dataplane-file: %w", err)
	case len(text) > maxDataplaneFile:
		return nil, fmt.Errorf("--dataplane-file %s is larger than %d bytes", f.dataplaneFile, maxDataplaneFile)
	case len(strings.TrimSpace(string(text))) == 0:
		return nil, fmt.Errorf("--dataplane-file %s is empty", f.dataplaneFile)
	}
	if s.Dataplane, err = agent.Substitute(string(text), variables); err != nil {
		return nil, fmt.Errorf("--dataplane-file %s: %w", f.dataplaneFile, err)
	}
	return s, nil
}
