package gateway

import (
	"net/url"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Application is an OAuth application, the credential of a consumer.
// Source: requirement "OAuth application (credential)".
type Application struct {
	// Consumer is the id of the owner.
	Consumer string `json:"consumer" jsonschema_extras:"x-on-delete=cascade,x-refers-to=consumer,x-by=username"`
	Name     string `json:"name" jsonschema:"maxLength=512"`
	ClientID string `json:"client_id" jsonschema:"maxLength=512" jsonschema_extras:"x-unique=true,x-generated=secret,x-check=header"`
	// ClientSecret is the secret or, if HashSecret is set, its PHC string.
	ClientSecret string   `json:"client_secret" jsonschema:"maxLength=512" jsonschema_extras:"x-generated=secret"`
	HashSecret   bool     `json:"hash_secret" jsonschema:"default=false"`
	RedirectURIs []string `json:"redirect_uris" jsonschema:"minItems=1,maxLength=2048" jsonschema_extras:"x-each-check=redirect"`
	ClientType   string   `json:"client_type" jsonschema:"default=confidential,enum=confidential,enum=public"`
	Tags         []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
	// SecondarySecret is accepted beside ClientSecret while one replaces the other. It is
	// hashed in the same way.
	SecondarySecret string `json:"secondary_secret,omitempty" jsonschema:"maxLength=512" jsonschema_extras:"x-keep=true"`
	// Scopes, unless nil, are the only scopes of the plugin that the application may obtain.
	Scopes []string `json:"scopes,omitempty" jsonschema:"maxLength=1024" jsonschema_extras:"x-keep=true,x-check=scopes,x-each-check=scope"`
}

// The client types of an application.
const (
	ClientConfidential = "confidential"
	ClientPublic       = "public"
)

// Applications is the kind of OAuth applications.
// Source: requirement "OAuth application (credential)".
var Applications = rules.With(model.Rules{
	Checks: map[string]func(any) string{
		"redirect": redirectText,
	},
}).Describe(Application{}, model.Kind{
	Name: "oauth2_credential", Path: "oauth2", Scoping: model.ControlPlane, Class: model.Credential, Sealed: true,
	Secrets: []string{"/client_secret", "/secondary_secret"},
	// Hashed secrets need not be unique, because nobody knows whether two are equal.
	Unique: []model.Index{{Name: IndexClientSecret, Secret: true, Value: func(spec any) (string, bool) {
		a := spec.(*Application)
		return a.ClientSecret, a.ClientSecret != "" && !a.HashSecret
	}}},
	Schema: &model.Schema{
		Key: "client_id", CreatedUnit: time.Second, Settle: hashOnWrite,
		Checks: []model.Check{{Fields: []string{"client_secret", "hash_secret"}, Run: secretCoupling}},
	},
})

// redirectText checks a redirect URI. It must be absolute, with a host and without a
// fragment. Source: RFC 6749 section 3.1.2.
func redirectText(v any) string {
	uri := v.(string)
	u, err := url.Parse(uri)
	switch {
	case err != nil, u.Scheme == "", u.Host == "":
		return "cannot parse '" + uri + "'"
	case strings.Contains(uri, "#"):
		return "fragment not allowed in '" + uri + "'"
	}
	return ""
}

// secretCoupling refuses a patch that does not say whether the new secret is a hash: a new
// secret needs hash_secret beside it. A patch with hash_secret alone is clear, because the
// stored secret is hashed.
func secretCoupling(w *model.Write) []fault.Violation {
	if w.Op != model.OpPatch {
		return nil
	}
	_, hashGiven := w.Given["hash_secret"]
	_, secretGiven := w.Given["client_secret"]
	changed := secretGiven && w.New["client_secret"] != w.Old["client_secret"]
	switch {
	case changed && !hashGiven, hashGiven && !secretGiven && w.New["hash_secret"] != true:
		return entityViolation("all or none of these fields must be set: 'hash_secret', 'client_secret'")
	}
	return nil
}

// hashOnWrite replaces secrets by their hashes if the entity asks for it. Values that are
// hashes already are left alone, so that an entity can be written back as it was read.
func hashOnWrite(w *model.Write, _ time.Time) error {
	if w.New["hash_secret"] != true {
		return nil
	}
	for _, name := range []string{"client_secret", "secondary_secret"} {
		secret := given(w.New, name)
		if hashed, _ := Hashed(secret); hashed || secret == "" {
			continue
		}
		hash, err := HashSecret(secret)
		if err != nil {
			return err
		}
		w.New[name] = hash
	}
	return nil
}
