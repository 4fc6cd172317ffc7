package agent

// versions returns the versions for two places: enrolments of sidecars, from which they get
// into the bootstrap, and streams, which belong to the relay and not to Envoy.
func (a *Agent) versions() map[string]any {
	version := func(v string) map[string]any { return map[string]any{"version": v} }
	out := map[string]any{"meshDp": version(a.Versions.Agent), "proxy": version(a.Versions.Envoy)}
	if a.Versions.Module != "" {
		out["dependencies"] = map[string]any{"module": a.Versions.Module}
	}
	return out
}
