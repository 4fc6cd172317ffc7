// Package cloud holds the kinds of the cloud API and their rules: where audit logs go, and later
// portals, control planes and their groups.
package cloud

import "github.com/meshgate/meshgate/controlplane/model"

// IndexName is the index of unique names.
const IndexName = "name"

// Kinds lists the kinds of the cloud API.
func Kinds() []*model.Kind {
	return append([]*model.Kind{
		AccessTokens, Destinations, Webhooks, Deliveries, Positions, Events, AllSinks, SinkPositions, ControlPlanes, Groups, ClientCertificates, Standings,
	}, portalKinds()...)
}

var rules = &model.Rules{Checks: map[string]func(any) string{
	"endpoint":   endpointText,
	"credential": credentialText,
	"name":       nameText,

	"control-plane-name": planeNameText,
	"token-name":         tokenNameText,

	"time": TimeText,

	"labels": labelsText,

	"client-certificate": clientCertificateText,
	"title":              titleText,
}}
