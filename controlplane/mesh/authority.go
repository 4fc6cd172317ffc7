package mesh

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// CheckAuthority returns why a certificate and its key cannot be an authority. Paths are
// below the configuration of the backend. All certificates of a chain must be authorities
// (X509-SVID 4.1, 4.3 and appendix A).
func CheckAuthority(certPEM, keyPEM []byte) []fault.Violation {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return []fault.Violation{{Path: "cert", Message: "not a valid TLS key pair: " + err.Error()}}
	}
	var vs []fault.Violation
	for i, der := range pair.Certificate {
		path := fmt.Sprintf("cert[%d]", i)
		add := func(text string) { vs = append(vs, fault.Violation{Path: path, Message: text}) }
		c, err := x509.ParseCertificate(der)
		if err != nil {
			add("not a valid x509 certificate: " + err.Error())
			continue
		}
		if !c.IsCA {
			add("basic constraint 'CA' must be set to 'true' (see X509-SVID: 4.1. Basic Constraints)")
		}
		if c.KeyUsage&x509.KeyUsageCertSign == 0 {
			add("key usage extension 'keyCertSign' must be set (see X509-SVID: 4.3. Key Usage)")
		}
		if c.KeyUsage&x509.KeyUsageKeyAgreement != 0 {
			add("key usage extension 'keyAgreement' must NOT be set (see X509-SVID: Appendix A. X.509 Field Reference)")
		}
	}
	return vs
}

// MaxSource bounds the content of a data source, in bytes.
const MaxSource = 1 << 20

// Load reads a data source of a mesh. Its faults are Invalid if no source is chosen, NotFound
// if the secret or file does not exist, and TooLarge. Files are read again each time, because
// nobody watches them.
func Load(r model.Getter, meshName string, d *DataSource) ([]byte, error) {
	switch {
	case d == nil:
		return nil, fault.New(fault.Invalid, "has to be defined")
	case d.Secret != "":
		res, err := r.Get(Secrets, meshName, d.Secret)
		if fault.Is(err, fault.NotFound) {
			return nil, fault.New(fault.NotFound, "could not load data: Resource not found: type=%q name=%q mesh=%q", "Secret", d.Secret, meshName)
		}
		if err != nil {
			return nil, err
		}
		return res.Spec.(*Secret).Data, nil
	case d.File != "":
		return readFile(d.File)
	case len(d.Inline) > 0:
		return d.Inline, nil
	case d.InlineString != nil:
		return []byte(*d.InlineString), nil
	}
	return nil, fault.New(fault.Invalid, "data source has to be chosen. Available sources: secret, file, inline")
}

// readFile reads only regular files, because opening others may block for ever.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, fault.Wrap(fault.NotFound, err, "could not load data: %s is no file that can be read", path)
	}
	f, err := os.Open(path) //nolint:gosec // the path is the administrator's
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "could not load data: %s is no file that can be read", path)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxSource+1))
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "could not load data: %s is no file that can be read", path)
	}
	if len(data) > MaxSource {
		return nil, fault.New(fault.TooLarge, "could not load data: %s has more than %d bytes", path, MaxSource)
	}
	return data, nil
}
