package gateway

import (
	"encoding/hex"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

// Key is an API key, a credential of a consumer.
type Key struct {
	// Consumer is the id of the owner.
	Consumer string `json:"consumer" jsonschema_extras:"x-on-delete=cascade,x-refers-to=consumer,x-by=username"`
	// Key may be chosen by the caller. As with tokens, a filter may then already know it as
	// absent.
	Key  string               `json:"key" jsonschema:"maxLength=4096" jsonschema_extras:"x-unique=secret,x-generated=secret,x-check=header,x-announce=true"`
	TTL  model.Virtual[int64] `json:"ttl,omitzero" jsonschema:"minimum=1,maximum=100000000" jsonschema_extras:"x-meta=true"`
	Tags []string             `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
	// DropAt is the time at which the key ends, in milliseconds of Unix time; 0 for never.
	DropAt int64 `json:"drop_at,omitempty" jsonschema_extras:"x-hidden=true,x-keep=true"`
}

// Keys is the kind of API keys. ttl is in seconds.
var Keys = rules.Describe(Key{}, model.Kind{
	Name: "keyauth_credential", Path: "key-auths", Scoping: model.ControlPlane, Class: model.Credential, Sealed: true,
	Secrets: []string{"/key"},
	Expires: func(spec any) time.Time { return at(spec.(*Key).DropAt) },
	Schema: &model.Schema{
		Key: "key", KeyIndex: KeyAuthKey, CreatedUnit: time.Second, Settle: settleKey,
		Present: func(r *model.Resource, out map[string]any, now time.Time) {
			out["ttl"] = remaining(r.Spec.(*Key).DropAt, now)
		},
	},
})

func settleKey(w *model.Write, now time.Time) error {
	settleTTL(w, now)
	return nil
}

// KeyAuthKey returns the value under which an API key is indexed: the hash that filters use
// (contract.HashKey), in lower-case hex.
func KeyAuthKey(key string) string {
	h := contract.HashKey([]byte(key))
	return hex.EncodeToString(h[:])
}
