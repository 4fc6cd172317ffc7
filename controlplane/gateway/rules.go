package gateway

import (
	"github.com/meshgate/meshgate/controlplane/model"
)

// rules are what the tags of several specs mean; those of one kind stand with it.
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
