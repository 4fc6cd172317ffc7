package assembly

// zoneOnline reports whether the control plane of a zone is connected. That of the own zone is
// this process. No other control plane connects yet.
func (cp *ControlPlane) zoneOnline(name string) bool { return name == cp.cfg.Zone.Own() }
