package assembly

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// mark is in every secret that a test makes up; what follows it tells them apart.
const mark = "n0body-may-kn0w-"

var marked = regexp.MustCompile(mark + `[a-z0-9-]+`)

// plantedSecret is one secret, and all forms in which it would be plain to see.
type plantedSecret struct {
	// kind is the name of the kind that holds it, or of nothing that an API reads.
	kind, path string
	forms      [][]byte
}

func newSecret(kind, path, text string) plantedSecret {
	s := plantedSecret{kind: kind, path: path}
	quoted, _ := json.Marshal(text)
	add := func(form string) { s.forms = append(s.forms, []byte(form)) }
	add(text)
	add(strings.Trim(string(quoted), `"`))
	add(url.QueryEscape(text))
	add(hex.EncodeToString([]byte(text)))
	for shift := range 3 { // in base64, what surrounds it decides about the ends
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			b := e.EncodeToString([]byte(strings.Repeat("\x00", shift) + text))
			add(b[4 : len(b)-4])
		}
	}
	slices.SortFunc(s.forms, bytes.Compare)
	s.forms = slices.CompactFunc(s.forms, bytes.Equal)
	return s
}

// in returns what surrounds the secret in a text; it is empty if it is not there.
func (s plantedSecret) in(text []byte) string {
	for _, form := range s.forms {
		if at := bytes.Index(text, form); at >= 0 {
			return fmt.Sprintf("%s %s as %q: %q", s.kind, s.path, form, text[max(0, at-120):min(len(text), at+len(form)+20)])
		}
	}
	return ""
}

// secretsOf finds what is secret in one member: what a test made up, private keys, tokens that are
// signed, and everything in the members of kinds that hold nothing but keys.
func secretsOf(k *model.Kind, path, value string) (out []plantedSecret) {
	texts := []string{value}
	if raw, err := base64.StdEncoding.DecodeString(value); err == nil && len(raw) > 0 {
		texts = append(texts, string(raw))
	}
	for _, text := range texts {
		for _, one := range marked.FindAllString(text, -1) {
			out = append(out, newSecret(k.Name, path, one))
		}
		for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
			if !strings.Contains(block.Type, "PRIVATE KEY") {
				continue
			}
			body := base64.StdEncoding.EncodeToString(block.Bytes)
			for at := 64; at+64 <= len(body); at += 64 { // the first line is the same for all keys of a sort
				out = append(out, newSecret(k.Name, path, body[at:at+64]))
			}
			if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil { // that of Ed25519 has only one line
				if short, is := key.(ed25519.PrivateKey); is {
					out = append(out, newSecret(k.Name, path, string(short.Seed())))
				}
			}
		}
		if strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2 {
			out = append(out, newSecret(k.Name, path, text))
		}
	}
	if len(out) == 0 && k.Sealed && len(k.Secrets) == 0 && len(value) >= 40 && !strings.Contains(texts[len(texts)-1], "CERTIFICATE") {
		out = append(out, newSecret(k.Name, path, value))
	}
	return out
}

// storedSecrets finds every secret in a store: the members that kinds declare secret. It fails for
// a member of which no resource has a value, because then nothing of it would be looked for.
func storedSecrets(t *testing.T, s store.Store) (out []plantedSecret) {
	t.Helper()
	met := map[string]bool{}
	if err := s.View(t.Context(), func(r store.Reader) error {
		for _, k := range AllKinds() {
			for _, scope := range []string{"", model.DefaultControlPlane, plantedMesh} {
				list, err := r.List(k, store.Query{Scope: scope})
				if err != nil {
					return err
				}
				for _, res := range list {
					eachLeaf(jsonOf(t, res), "", func(path, value string) {
						if !changes.Secret(k, path) {
							return
						}
						out = append(out, secretsOf(k, path, value)...)
						for _, pattern := range k.Secrets {
							if (&model.Kind{Secrets: []string{pattern}}).Conceals(path) {
								met[k.Name+" "+pattern] = true
							}
						}
						met[k.Name] = true
					})
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, k := range AllKinds() {
		for _, pattern := range k.Secrets {
			if !met[k.Name+" "+pattern] {
				t.Errorf("%s %s is a secret, and the test plants none there", k.Name, pattern)
			}
		}
		// Events tell of what is sealed, and hold no secrets; see TestControlPlaneLog.
		if k.Sealed && !met[k.Name] && k != cloud.Events {
			t.Errorf("%s is sealed, and the test plants none", k.Name)
		}
	}
	// What is a copy of something that an API shows, such as the key of an authority, is that.
	return slices.DeleteFunc(out, func(s plantedSecret) bool {
		return len(readers(s.kind)) == 0 && slices.ContainsFunc(out, func(of plantedSecret) bool {
			return len(readers(of.kind)) > 0 && bytes.Equal(of.forms[0], s.forms[0])
		})
	})
}

// jsonOf is a resource as its API shows it, or else as it is stored.
func jsonOf(t *testing.T, r *model.Resource) (v any) {
	t.Helper()
	shown := r.Spec
	if r.Kind.Schema != nil {
		entity, err := r.Entity()
		if err != nil {
			t.Fatal(err)
		}
		shown = entity
	}
	raw, err := json.Marshal(shown)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// eachLeaf calls f for each text in a JSON value.
func eachLeaf(v any, path string, f func(path, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, of := range v {
			eachLeaf(of, path+"/"+key, f)
		}
	case []any:
		for i, of := range v {
			eachLeaf(of, fmt.Sprintf("%s/%d", path, i), f)
		}
	case string:
		f(path, v)
	}
}
