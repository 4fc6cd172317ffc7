package meshtokenauth

import (
	"cmp"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

func explain(s *policy.Selection) any {
	d := *policy.First[Resource](s).demanded()
	if d.Plugin != nil {
		p := *d.Plugin
		p.ControlPlane = cmp.Or(p.ControlPlane, model.DefaultControlPlane)
		d.Plugin = &p
		return &d
	}
	c := *d.Config
	c.AuthHeaderName = cmp.Or(c.AuthHeaderName, "authorization")
	d.Config = &c
	return &d
}
