package lifecycle

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

const (
	textDefined  = "has to be defined"
	textNoSource = "data source has to be chosen. Available sources: secret, file, inline"
	textPlugin   = "could not find installed plugin for this type"
	textNotCA    = "basic constraint 'CA' must be set to 'true' (see X509-SVID: 4.1. Basic Constraints)"
	textNoSign   = "key usage extension 'keyCertSign' must be set (see X509-SVID: 4.3. Key Usage)"
	textAgree    = "key usage extension 'keyAgreement' must NOT be set (see X509-SVID: Appendix A. X.509 Field Reference)"
	maxFile      = 1 << 20
)

// dnsLabel is what a backend's name must be, because names of secrets contain it.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// validateAuthorities is the second stage of validating a mesh: it looks at what
// its backends refer to. skipValidation turns it off.
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
		data, message, err := load(r, name, part.source)
		if err != nil {
			return nil, err
		}
		if message != "" {
			vs = append(vs, fault.Violation{Path: path + part.name, Message: message})
		}
		content[i] = data
	}
	if len(vs) > 0 {
		return vs, nil
	}
	return validatePair(path+".cert", content[0], content[1]), nil
}

// load reads a data source. message says what is wrong with it.
func load(r model.Getter, name string, d *mesh.DataSource) (data []byte, message string, err error) {
	switch {
	case d == nil:
		return nil, textDefined, nil
	case d.Secret != "":
		res, err := r.Get(mesh.Secrets, name, d.Secret)
		if fault.Is(err, fault.NotFound) {
			return nil, absent(d.Secret, name), nil
		}
		if err != nil {
			return nil, "", err
		}
		return res.Spec.(*mesh.Secret).Data, "", nil
	case d.File != "":
		if data, err = readFile(d.File); err != nil {
			return nil, "could not load data: " + err.Error(), nil
		}
		return data, "", nil
	case d.InlineString != nil:
		return []byte(*d.InlineString), "", nil
	case len(d.Inline) > 0:
		return d.Inline, "", nil
	}
	return nil, textNoSource, nil
}

func absent(secret, name string) string {
	return fmt.Sprintf("could not load data: Resource not found: type=%q name=%q mesh=%q", "Secret", secret, name)
}

// readFile reads a regular file of limited size: a pipe or device would block.
func readFile(path string) (data []byte, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, fmt.Errorf("%s is no regular file of at most %d bytes", path, maxFile)
	}
	f, err := os.Open(path) //nolint:gosec // administrators name the file of an authority
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// validatePair checks that an authority can sign certificates of proxies.
func validatePair(path string, cert, key []byte) []fault.Violation {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return []fault.Violation{{Path: path, Message: "not a valid TLS key pair: " + err.Error()}}
	}
	var vs []fault.Violation
	for i, der := range pair.Certificate {
		at := path + "[" + strconv.Itoa(i) + "]"
		add := func(wrong bool, message string) {
			if wrong {
				vs = append(vs, fault.Violation{Path: at, Message: message})
			}
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			add(true, "not a valid x509 certificate: "+err.Error())
			return vs
		}
		add(!c.IsCA, textNotCA)
		add(c.KeyUsage&x509.KeyUsageCertSign == 0, textNoSign)
		add(c.KeyUsage&x509.KeyUsageKeyAgreement != 0, textAgree)
	}
	return vs
}

// uses returns the secrets of a backend by name.
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

// secretsExist repeats in the transaction what may have changed since Prepare:
// a secret that it saw may be gone.
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
