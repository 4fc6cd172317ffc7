package assembly

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/policy/healthcheck"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
)

// withSecrets holds a resource of every kind that has secret members, in an order in which
// they can be created. $S stands for a secret, $B for a secret in base64.
var withSecrets = []struct {
	kind *model.Kind
	spec string
}{
	{gateway.Consumers, `{"username":"shown"}`},
	{gateway.Plugins, `{"name":"oauth2","config":{"provision_key":"$S","scopes":["shown"]},"protocols":["http"],"enabled":true}`},
	{gateway.Applications, `{"consumer":"$ID","name":"a","client_id":"shown","client_type":"confidential","client_secret":"$S","secondary_secret":"$S","redirect_uris":["https://shown/"]}`},
	{gateway.Tokens, `{"credential":"$ID","access_token":"$S","refresh_token":"$S","expires_in":5,"scope":"shown"}`},
	{gateway.Keys, `{"consumer":"$ID","key":"$S","tags":["shown"]}`},
	{gateway.Certificates, `{"cert":"shown","key":"$S","key_alt":"$S"}`},
	{gateway.Upstreams, `{"name":"shown","healthchecks":{"active":{"headers":{"Authorization":["$S","$S"]}}}}`},
	{mesh.Meshes, `{"mtls":{"backends":[{"name":"shown","conf":{"cert":{"inline":"$B","inlineString":"$S"},"key":{"inline":"$B","inlineString":"$S"}}}]},
		"tracing":{"backends":[{"conf":{"url":"$S"}}]},"logging":{"backends":[{"conf":{"x":{"y":["$S"]}}}]},"metrics":{"backends":[{"conf":{"token":"$S"}}]}}`},
	{mesh.ExternalServices, `{"tags":{"mesh.io/service":"shown"},"networking":{"tls":{"caCert":{"inline":"$B","inlineString":"$S"},
		"clientCert":{"inline":"$B","inlineString":"$S"},"clientKey":{"inline":"$B","inlineString":"$S"}}}}`},
	{healthcheck.Kind, `{"conf":{"http":{"path":"/shown","requestHeadersToAdd":[{"header":{"key":"shown","value":"$S"}}]},"tcp":{"send":"$B"}}}`},
	{trafficroute.Kind, `{"conf":{"http":[{"modify":{"requestHeaders":{"add":[{"name":"shown","value":"$S"}]}}}]}}`},
	{mesh.MeshGatewayRoutes, `{"conf":{"http":{"rules":[{"filters":[{"requestHeader":{"set":[{"name":"shown","value":"$S"}],"add":[{"name":"shown","value":"$S"}]}}]}]}}}`},
	{mesh.Secrets, `{"data":"$B"}`},
	{mesh.GlobalSecrets, `{"data":"$B"}`},
	{cloud.AccessTokens, `{"name":"shown","role":"viewer","control_planes":["shown"],"digest":"$S"}`},
	{cloud.Destinations, `{"name":"shown","endpoint":"https://shown/","authorization":"$S","log_format":"json"}`},
	{cloud.Portals, `{"name":"shown","slug":"shown"}`},
	{cloud.Developers, `{"portal":"$ID","email":"shown@shown","full_name":"shown","status":"approved"}`},
	{cloud.Passwords, `{"developer":"$ID","hash":"$S"}`},
	{identity.Keys, `{"key":"$B","certificate":"$B","id":"shown"}`},
}

// idOfAll is the name of all these resources. It replaces $ID in their specs.
const idOfAll = "10000000-0000-4000-8000-000000000000"

// secrets makes secrets and knows all forms in which they must not appear.
type secrets struct {
	n     int
	forms [][]byte
}

// fill puts new secrets into a text.
func (s *secrets) fill(text string) string {
	text = strings.ReplaceAll(text, "$ID", idOfAll)
	for strings.Contains(text, "$") {
		s.n++
		one := fmt.Sprintf("n0body-may-kn0w-%d!", s.n)
		encoded := base64.StdEncoding.EncodeToString([]byte(one))
		sum := contract.HashKey([]byte(one))
		token := sha256.Sum256([]byte(one))
		for _, form := range []string{
			one, strings.TrimRight(encoded, "="), base64.RawURLEncoding.EncodeToString([]byte(one)),
			hex.EncodeToString(sum[:]), hex.EncodeToString(token[:]), gateway.TokenKey(one),
		} {
			s.forms = append(s.forms, []byte(form))
		}
		at := strings.Index(text, "$")
		put := one
		if text[at+1] == 'B' {
			put = encoded
		}
		text = text[:at] + put + text[at+2:]
	}
	return text
}

// TestNoSecretIsRecorded creates, changes and deletes a resource of every kind with all its
// secret members. It then looks for the secrets in the change records and in the whole
// database.
func TestNoSecretIsRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	keys, err := seal.New(bytes.Repeat([]byte{7}, seal.RootSize))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path, Kinds: AllKinds(), Sealer: keys, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	gate := admit.New(db, &admittest.Revoker{}, AllKinds(), time.Now)
	ctx := model.WithActor(t.Context(), model.Administrator())
	var hidden secrets
	write := func(do func(store.Tx) error) {
		t.Helper()
		if _, err := gate.Write(ctx, model.Config, do); err != nil {
			t.Fatal(err)
		}
	}
	for _, update := range []bool{false, true} {
		for _, c := range withSecrets {
			write(func(tx store.Tx) error {
				r := &model.Resource{Kind: c.kind, Name: idOfAll, Spec: c.kind.New()}
				if err := json.Unmarshal([]byte(hidden.fill(c.spec)), r.Spec); err != nil {
					return err
				}
				if update {
					_, err := tx.Update(r, 0)
					return err
				}
				_, err := tx.Create(r)
				return err
			})
		}
	}
	hashed := admit.Input{Values: map[string]any{"hash_secret": true, "client_secret": hidden.fill("$S")}}
	if _, err := gate.Patch(ctx, admit.Address{Kind: gateway.Applications, Key: "shown"}, hashed); err != nil {
		t.Fatal(err)
	}
	hidden.forms = append(hidden.forms, []byte("$pbkdf2"), []byte("$argon2"), []byte("argon2id"))
	for _, c := range slices.Backward(withSecrets) {
		write(func(tx store.Tx) error { return tx.Delete(c.kind, "", idOfAll, 0) })
	}
	recorded := recordsOf(t, db)
	text, err := json.Marshal(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("shown")) {
		t.Error("nothing is recorded")
	}
	hidden.lookFor(t, "what is recorded", text)
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		// Headers of health checks of gateways are not sealed in the resource itself either.
		hidden.lookFor(t, "the table of changes in "+filepath.Base(f), changesOnly(raw))
	}
	everySecret(t, recorded)
}

// changesOnly removes what the table of resources holds in clear text.
func changesOnly(raw []byte) []byte {
	open := []byte(`"Authorization":[`)
	for at := bytes.Index(raw, open); at >= 0; at = bytes.Index(raw, open) {
		end := at + bytes.IndexByte(raw[at:], ']')
		raw = append(raw[:at:at], raw[end:]...)
	}
	return raw
}

func (s *secrets) lookFor(t *testing.T, where string, raw []byte) {
	t.Helper()
	for _, form := range s.forms {
		if at := bytes.Index(raw, form); at >= 0 {
			t.Errorf("%q is in %s: %q", form, where, raw[max(0, at-60):min(len(raw), at+60)])
		}
	}
}

// recordsOf returns all change records.
func recordsOf(t *testing.T, s store.Store) (list []store.ChangeRecord) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) (err error) {
		list, err = r.Records(store.RecordQuery{Oldest: true, Fleeting: true})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// everySecret checks that each declared secret was recorded, and that no sealed kind declares
// none.
func everySecret(t *testing.T, recorded []store.ChangeRecord) {
	t.Helper()
	for _, k := range changes.Listed(AllKinds()) {
		if k.Sealed && len(k.Secrets) == 0 {
			t.Errorf("%s is sealed and does not say which members are secret: none of them is shown", k.Name)
		}
		for _, pattern := range k.Secrets {
			prefix, _, _ := strings.Cut(pattern, "*")
			for _, op := range []store.Op{store.Created, store.Updated, store.Deleted} {
				if !slices.ContainsFunc(recorded, func(r store.ChangeRecord) bool {
					return r.Op == op && r.Key.Kind == k.Name && slices.ContainsFunc(r.Members, func(m store.Member) bool {
						return m.Secret && strings.HasPrefix(m.Path, prefix)
					})
				}) {
					t.Errorf("%s %s was never %s: the test writes no such member", k.Name, pattern, op)
				}
			}
		}
	}
}

// TestMembersOfSealedKinds lists every member of the kinds that have secrets, and whether its
// values are shown. Somebody who adds a member has to decide here.
func TestMembersOfSealedKinds(t *testing.T) {
	var lines []string
	for _, k := range changes.Listed(AllKinds()) {
		if !k.Sealed && len(k.Secrets) == 0 {
			continue
		}
		for _, p := range membersOf(k) {
			how := "shown"
			if changes.Secret(k, strings.ReplaceAll(p, "*", "0")) {
				how = "secret"
			}
			lines = append(lines, k.Name+" "+p+" "+how)
		}
	}
	got := strings.Join(lines, "\n") + "\n"
	// Add secret members to Secrets of their kind before you write the file anew.
	golden.Compare(t, "testdata/sealed-members.golden", []byte(got))
}

// membersOf lists the paths of all members of a kind, sorted.
func membersOf(k *model.Kind) (paths []string) {
	if k.Schema != nil {
		paths = schemaPaths(k.Schema, "", nil)
	} else {
		paths = typePaths(reflect.TypeOf(k.New()), "")
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// soundsSecret matches names of members that may hold a secret.
var soundsSecret = regexp.MustCompile(`(?i)(secret|token|passw|credential|private|inline|auth|_key|key$|key_|Key)`)

// TestMembersThatSoundSecret lists every member of any kind that is called like a secret and is
// shown. Somebody who adds one has to decide here that it is none.
func TestMembersThatSoundSecret(t *testing.T) {
	var lines []string
	for _, k := range AllKinds() {
		for _, p := range membersOf(k) {
			if soundsSecret.MatchString(p) && !changes.Secret(k, strings.ReplaceAll(p, "*", "0")) {
				lines = append(lines, k.Name+" "+p)
			}
		}
	}
	golden.Compare(t, "testdata/sound-secret.golden", []byte(strings.Join(lines, "\n")+"\n"))
}

// schemaPaths lists the leaves of a schema.
func schemaPaths(s *model.Schema, path string, out []string) []string {
	for i := range s.Fields {
		f := &s.Fields[i]
		at := path + "/" + f.Name
		switch {
		case f.Meta:
		case f.Variant != nil:
			for _, name := range gateway.PluginNames() {
				out = schemaPaths(f.Variant(map[string]any{"name": name}), at, out)
			}
		case f.Type == model.Record:
			out = schemaPaths(f.Schema, at, out)
		case f.Type == model.Foreign:
			out = append(out, at+"/id")
		case f.Elem != nil:
			out = append(out, at+"/*")
		default:
			out = append(out, at)
		}
	}
	return out
}

// typePaths lists the leaves of a type as they appear in JSON.
func typePaths(t reflect.Type, path string) (out []string) {
	switch t.Kind() {
	case reflect.Pointer:
		return typePaths(t.Elem(), path)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return typePaths(t.Elem(), path+"/*")
		}
	case reflect.Map:
		return typePaths(t.Elem(), path+"/*")
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				out = append(out, typePaths(f.Type, path)...)
			case f.IsExported() && name != "" && name != "-":
				out = append(out, typePaths(f.Type, path+"/"+name)...)
			}
		}
		if len(out) > 0 {
			return out
		}
	default:
	}
	return []string{path}
}
