package mesh

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/reserved"
)

const (
	textEmpty    = "cannot be empty"
	textEnabled  = "has to be set to one of the backends in the mesh"
	textPercent  = "has to be in [0.0 - 100.0] range"
	textSpan     = "has to be a valid format"
	metricsName  = "dataplane-metrics"
	metricsPort  = 5670
	metricsPath  = "/metrics"
	maxMeshName  = 63
	textChanging = "Changing CA when mTLS is enabled is forbidden. Disable mTLS first and then change the CA"
	textRSABits  = "has to be in range [2048, 4096]"
	// What nothing would do is refused: a mesh that has it looks as if it were protected, or served, by it.
	textNoMeshServices  = "is not supported: there are no MeshServices. Services are named by tags, as with the mode " + servicesOff
	textNoMeshExternals = "is not supported: there are no MeshExternalServices. TrafficPermissions say who may call an ExternalService"
	// Nothing waits for these: the control plane has the keys of all authorities.
	textNobodyAsked = "has no effect: the control plane has the authority's key and asks nobody else"
	servicesOff     = "Disabled"
)

// complete fills in what a metrics backend needs for scraping.
func (m *Mesh) complete() {
	if m.Metrics == nil {
		return
	}
	for i := range m.Metrics.Backends {
		b := &m.Metrics.Backends[i]
		if b.Type != Prometheus {
			continue
		}
		conf := map[string]any{
			"port": float64(metricsPort), "path": metricsPath,
			"tags": map[string]any{TagService: metricsName}, "tls": map[string]any{},
		}
		if skip, _ := b.Conf["skipMTLS"].(bool); skip {
			conf["tls"] = map[string]any{"mode": "disabled"}
			if _, both := b.Conf["tls"]; !both {
				b.Conf = maps.Clone(b.Conf)
				delete(b.Conf, "skipMTLS")
			}
		}
		maps.Copy(conf, b.Conf)
		b.Conf = conf
	}
}

// validate returns all violations of a mesh, without looking at other resources.
func (m *Mesh) validate() []fault.Violation {
	var vs violations
	vs.mtls(m.MTLS)
	vs.logging(m.Logging)
	vs.tracing(m.Tracing)
	vs.metrics(m.Metrics)
	vs.constraints(m.Constraints)
	if m.Routing != nil && m.Routing.ZoneEgress && m.Authority() == nil {
		vs.add("mtls", "has to be set when zoneEgress enabled")
	}
	if m.Routing != nil && m.Routing.DefaultForbidMeshExternalServiceAccess {
		vs.add("routing.defaultForbidMeshExternalServiceAccess", textNoMeshExternals)
	}
	if m.MeshServices != nil && or(m.MeshServices.Mode, servicesOff) != servicesOff {
		vs.add("meshServices.mode", textNoMeshServices)
	}
	return vs
}

// idle returns the members of a mesh that have no effect. They do no harm either, so they are not refused:
// scripts set them.
func (m *Mesh) idle() []fault.Violation {
	if m.MTLS == nil {
		return nil
	}
	var vs violations
	for i := range m.MTLS.Backends {
		b, path := &m.MTLS.Backends[i], indexed("mtls.backends", i)
		if b.DPCert != nil && b.DPCert.RequestTimeout != nil {
			vs.add(path+".dpCert.requestTimeout", textNobodyAsked)
		}
		if b.RootChain != nil && b.RootChain.RequestTimeout != nil {
			vs.add(path+".rootChain.requestTimeout", textNobodyAsked)
		}
	}
	return vs
}

func (vs *violations) mtls(t *MTLS) {
	if t == nil {
		return
	}
	if len(t.Backends) > 1 {
		vs.add("mtls.backends", "cannot have more than 1 backends")
	}
	names := vs.names("mtls.backends", len(t.Backends), func(i int) string { return t.Backends[i].Name })
	if t.EnabledBackend != "" && !slices.Contains(names, t.EnabledBackend) {
		vs.add("mtls.enabledBackend", textEnabled)
	}
	for i := range t.Backends {
		b := &t.Backends[i]
		if c := b.DPCert; c != nil && c.Rotation != nil && wrongLifetime(c.Rotation.Expiration) {
			vs.add("mtls.dpcert.rotation.expiration", textSpan)
		}
		if b.Conf == nil || b.Conf.CACert == nil {
			continue
		}
		path := indexed("mtls.backends", i) + ".conf.caCert"
		// The time to make a key grows with the fourth power of its size.
		if bits := b.Conf.CACert.RSABits; bits != nil && (*bits < 2048 || *bits > 4096) {
			vs.add(path+".RSAbits", textRSABits)
		}
		if wrongLifetime(b.Conf.CACert.Expiration) {
			vs.add(path+".expiration", textSpan)
		}
	}
}

// wrongLifetime reports whether a lifetime is given and cannot be used: a mesh that is stored with such a
// lifetime would have no certificates.
func wrongLifetime(text string) bool {
	if text == "" {
		return false
	}
	_, err := Lifetime(text)
	return err != nil
}

// names refuses repeated names of backends, and returns all names.
func (vs *violations) names(path string, n int, name func(int) string) []string {
	var names []string
	for i := range n {
		if slices.Contains(names, name(i)) {
			vs.add(indexed(path, i)+".name", fmt.Sprintf("%q name is already used for another backend", name(i)))
		}
		names = append(names, name(i))
	}
	return names
}

func text(conf map[string]any, key string) string { s, _ := conf[key].(string); return s }

func (vs *violations) tracing(t *Tracing) {
	if t == nil {
		return
	}
	for i, b := range t.Backends {
		path := indexed("tracing.backends", i)
		if b.Name == "" {
			vs.add(path+".name", textEmpty)
		}
		if wrong := reserved.Wrong(b.Name); wrong != "" {
			vs.add(path+".name", wrong)
		}
		if s := b.Sampling; s != nil && (*s < 0 || *s > 100) {
			vs.add(path+".sampling", textPercent)
		}
		_, wrong := b.Collector()
		for _, v := range wrong {
			vs.add(path+"."+v.Path, v.Message)
		}
	}
	names := vs.names("tracing.backends", len(t.Backends), func(i int) string { return t.Backends[i].Name })
	if t.DefaultBackend != "" && !slices.Contains(names, t.DefaultBackend) {
		vs.add("tracing.defaultBackend", "has to be set to one of the tracing backend in mesh")
	}
}

// number reads an integer of a free configuration, in which numeric strings are allowed.
func number(v any) (int64, bool) {
	switch x := v.(type) {
	case float64:
		return int64(x), x == math.Trunc(x) && math.Abs(x) <= 1<<53
	case string:
		n, err := strconv.ParseInt(x, 10, 64)
		return n, err == nil
	}
	return 0, false
}

func (vs *violations) constraints(c *Constraints) {
	if c == nil || c.DataplaneProxy == nil {
		return
	}
	for i, r := range c.DataplaneProxy.Requirements {
		vs.join(ValidateMatch(indexed("constraints.dataplaneProxy.requirements", i)+".tags", r.Tags, SelectAny))
	}
	for i, r := range c.DataplaneProxy.Restrictions {
		vs.join(ValidateMatch(indexed("constraints.dataplaneProxy.restrictions", i)+".tags", r.Tags, SelectAny))
	}
}

// crossMesh checks rules that depend on the name of a mesh and on its stored state.
func crossMesh(_ model.Getter, old, r *model.Resource) ([]fault.Violation, error) {
	var vs violations
	if old == nil {
		if len(r.Name) > maxMeshName {
			vs.add("name", "cannot be longer than 63 characters")
		}
		// The id of a proxy is <mesh>.<name>, and the first dot ends the mesh.
		if strings.Contains(r.Name, ".") {
			vs.add("name", "must not contain '.'")
		}
		return vs, nil
	}
	was, is := old.Spec.(*Mesh).Authority(), r.Spec.(*Mesh).Authority()
	if was != nil && is != nil && was.Name != is.Name {
		vs.add("mtls.enabledBackend", textChanging)
	}
	return vs, nil
}
