package gateway

import (
	"github.com/meshgate/meshgate/controlplane/model"
)

// rules holds the meaning of tags that several specs use. Tags of one kind are defined with
// the kind.
var rules = &model.Rules{
	Checks: map[string]func(any) string{
		"header":      headerText,
		"header-name": headerNameText,
		"host":        hostText,
		"name":        nameText,
		"path":        servicePathText,
		"realm":       realmText,
		"scope":       scopeText,
		"scopes":      scopesText,
		"sni":         sniText,
		"tag":         tagText,
	},
	Generators: map[string]func() (any, error){"secret": generated},
}
