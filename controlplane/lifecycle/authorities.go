package lifecycle

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

const (
	textPlugin = "could not find installed plugin for this type"
)

// dnsLabel matches valid names of backends. They must be labels because names of secrets
// contain them.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// validateAuthorities is the second stage of validating a mesh: it checks what its backends
// refer to. skipValidation switches it off.
func validateAuthorities(r model.Getter, name string, s *mesh.Mesh) ([]fault.Violation, error) {
	if s.MTLS == nil || s.MTLS.SkipValidation {
		return nil, nil
	}
	var vs []fault.Violation
	for i := range s.MTLS.Backends {
		b, path := &s.MTLS.Backends[i], "mtls.backends["+strconv.Itoa(i)+"]"
		switch b.Type {
		case mesh.AuthorityBuiltin:
			if !dnsLabel.MatchString(b.Name) {
				vs = append(vs, fault.Violation{
					Path: path + ".conf.mtls.backends.name", Message: fmt.Sprintf("%q name must be valid dns name", b.Name),
				})
			}
		case mesh.AuthorityProvided:
			more, err := validateProvided(r, name, path+".conf", b.Conf)
			if err != nil {
				return nil, err
			}
			vs = append(vs, more...)
		default:
			vs = append(vs, fault.Violation{Path: path + ".type", Message: textPlugin})
		}
	}
	return vs, nil
}

func validateProvided(r model.Getter, name, path string, conf *mesh.AuthorityConf) ([]fault.Violation, error) {
	if conf == nil {
		conf = &mesh.AuthorityConf{}
	}
	var vs []fault.Violation
	var content [2][]byte
	for i, part := range []struct {
		name   string
		source *mesh.DataSource
	}{{".cert", conf.Cert}, {".key", conf.Key}} {
		data, err := mesh.Load(r, name, part.source)
		wrong, expected := errors.AsType[*fault.Error](err)
		switch {
		case expected && wrong.Code != fault.Internal:
			vs = append(vs, fault.Violation{Path: path + part.name, Message: wrong.Detail})
		case err != nil:
			return nil, err
		}
		content[i] = data
	}
	if len(vs) > 0 {
		return vs, nil
	}
	vs = mesh.CheckAuthority(content[0], content[1])
	for i := range vs {
		vs[i].Path = path + "." + vs[i].Path
	}
	return vs, nil
}

func absent(secret, name string) string {
	return fmt.Sprintf("could not load data: Resource not found: type=%q name=%q mesh=%q", "Secret", secret, name)
}

// uses returns the names of the secrets of a backend.
func uses(name string, b *mesh.Authority) []string {
	switch {
	case b.Type == mesh.AuthorityBuiltin:
		return []string{mesh.BuiltinCert(name, b.Name), mesh.BuiltinKey(name, b.Name)}
	case b.Type != mesh.AuthorityProvided || b.Conf == nil:
		return nil
	}
	var names []string
	for _, d := range []*mesh.DataSource{b.Conf.Cert, b.Conf.Key} {
		if d != nil && d.Secret != "" {
			names = append(names, d.Secret)
		}
	}
	return names
}

// secretsExist repeats in the transaction the check of Prepare whose result may have changed:
// a secret may have been deleted meanwhile.
func secretsExist(tx model.Getter, name string, s *mesh.Mesh) error {
	if s.MTLS == nil || s.MTLS.SkipValidation {
		return nil
	}
	var vs []fault.Violation
	for i := range s.MTLS.Backends {
		b := &s.MTLS.Backends[i]
		if b.Type != mesh.AuthorityProvided {
			continue
		}
		for _, secret := range uses(name, b) {
			there, err := exists(tx, mesh.Secrets, name, secret)
			if err != nil {
				return err
			}
			if !there {
				vs = append(vs, fault.Violation{Path: "mtls.backends[" + strconv.Itoa(i) + "].conf", Message: absent(secret, name)})
			}
		}
	}
	return fault.Violated(vs)
}
