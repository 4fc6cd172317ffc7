package oauth

import (
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/filter/contract"
)

// Subjects tells the revoker which changes revoke what.
func Subjects() map[*model.Kind]revoke.Subject {
	return map[*model.Kind]revoke.Subject{
		gateway.Tokens: {
			Is:      contract.SubjectToken,
			Token:   func(spec any) contract.Hash { return contract.HashToken([]byte(spec.(*gateway.Token).AccessToken)) },
			Expires: lifetime,
			Under:   func(spec any) string { return spec.(*gateway.Token).Credential },
		},
		gateway.Applications: {Is: contract.SubjectCredential},
		gateway.Consumers:    {Is: contract.SubjectConsumer},
		gateway.Keys: {
			Is:      contract.SubjectToken,
			Token:   func(spec any) contract.Hash { return contract.HashKey([]byte(spec.(*gateway.Key).Key)) },
			Expires: func(r *model.Resource) int64 { return r.Spec.(*gateway.Key).DropAt },
		},
	}
}

// shown are the indexes by which upstreams are told who somebody is, "" for the id. What a
// member of a group has in common of these with one that had it first would let it pass for
// that one.
func shown(k *model.Kind) []string {
	switch k {
	case gateway.Applications:
		return []string{gateway.IndexClientID}
	case gateway.Consumers:
		return []string{"", gateway.IndexUsername, gateway.IndexCustomID}
	case gateway.Keys:
		return []string{""}
	}
	return nil
}
