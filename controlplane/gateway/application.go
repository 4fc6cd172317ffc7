package gateway

import (
	"net/url"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// applicationSchema describes OAuth applications.
// Source: requirement "OAuth application (credential)".
var applicationSchema = &model.Schema{
	Key: "client_id", CreatedUnit: time.Second, Settle: hashOnWrite,
	Checks: []model.Check{{Fields: []string{"client_secret", "hash_secret"}, Run: secretCoupling}},
}

// redirectText checks a redirect URI: absolute, with a host, without a
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

// secretCoupling keeps a patch from leaving it open whether the stored secret
// is a hash: a new secret needs hash_secret beside it. Switching hash_secret on
// alone is clear: the stored secret is hashed.
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

// hashOnWrite replaces secrets by their hashes where the entity asks for it.
// What is a hash already is left alone, so that an entity can be written back
// as it was read.
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
