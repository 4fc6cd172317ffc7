package agent

// versions are the same in enrolments of sidecars, from which they get into the
// bootstrap, and in streams, which are the relay's and not Envoy's.
func (a *Agent) versions() map[string]any {
	version := func(v string) map[string]any { return map[string]any{"version": v} }
	out := map[string]any{"meshDp": version(a.Versions.Agent), "proxy": version(a.Versions.Envoy)}
	if a.Versions.Module != "" {
		out["dependencies"] = map[string]any{"module": a.Versions.Module}
	}
	return out
}
