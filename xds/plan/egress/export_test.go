package egress

import "github.com/meshgate/meshgate/xds/plan/sidecar"

// Spoil makes the next plan of what a mesh contributes panic.
func (p *Planner) Spoil(meshName string) { p.meshes[meshName].exits = &sidecar.Exits{} }
