package mesh

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/reserved"
)

// External is an ExternalService with what it refers to, as views hold it. It is immutable and
// holds no private key.
type External struct {
	host       string
	port       uint32
	endpoints  []Endpoint
	names      []Name
	secrets    []string
	protection *ExternalProtection
	// digest tells protections at places apart, and demands those that differ in more than what
	// proxies present. Both are empty without a protection.
	digest, demands string
}

// ExternalProtection is how connections to a service outside the mesh are protected.
type ExternalProtection struct {
	// Roots are the certificates of the authorities that may have signed the certificate of
	// the service, in PEM. If there are none, System says that those of the caller's machine
	// may have.
	Roots  string `json:",omitempty"`
	System bool   `json:",omitempty"`
	// Name is the host name or IP address that the certificate must have, unless AnyName.
	Name        string
	AnyName     bool
	Renegotiate bool
	// Client is the name of the secret that proxies present, empty for none. It is another one for
	// other content, for everything else that may differ here, and for another place: what is
	// presented to one service must never be presented to another one, not even for a moment.
	Client string `json:",omitempty"`
	// Wrong says why nobody can be protected so. Nobody may then call the service.
	Wrong string `json:",omitempty"`
}

// Locates returns where the service is, under the service of its tags.
func (e *External) Locates() []Endpoint { return e.endpoints }

// Hosts returns the host names of the service; see [ExternalService.Hosts].
func (e *External) Hosts() []Name { return e.names }

// Location returns the host and the port of the service.
func (e *External) Location() (host string, port uint32) { return e.host, e.port }

// Protection returns how connections to the service are protected, nil if they are in clear.
func (e *External) Protection() *ExternalProtection { return e.protection }

// Digest tells protections apart, and Demands those that differ in more than the name of the secret
// that is presented. Both are empty if connections are in clear.
func (e *External) Digest() string { return e.digest }

// Demands is described at [External.Digest].
func (e *External) Demands() string { return e.demands }

// SecretNames are the secrets of the mesh that the service refers to. A change of one makes
// another External.
func (e *External) SecretNames() []string { return e.secrets }

// SecretNames are the secrets of the mesh that the service refers to, whether or not it needs
// them.
func (s *ExternalService) SecretNames() (names []string) {
	if s.Networking == nil || s.Networking.TLS == nil {
		return nil
	}
	t := s.Networking.TLS
	for _, d := range []*DataSource{t.CACert, t.ClientCert, t.ClientKey} {
		if d != nil && d.Secret != "" {
			names = append(names, d.Secret)
		}
	}
	return names
}

// Resolved returns the service of that name with what it refers to in its mesh, an *[External].
// It fails if that cannot be read now. What is missing or wrong is in its protection.
func (s *ExternalService) Resolved(r model.Getter, meshName, name string) (any, error) {
	e := &External{endpoints: s.Locates(), names: s.Hosts(), secrets: s.SecretNames()}
	e.host, e.port, _ = s.Location()
	if s.Networking == nil || s.Networking.TLS == nil || !s.Networking.TLS.Enabled {
		return e, nil
	}
	t := s.Networking.TLS
	p := &ExternalProtection{Name: strings.TrimSuffix(e.host, "."), AnyName: t.SkipHostnameVerification, Renegotiate: t.AllowRenegotiation}
	if t.ServerName != nil {
		p.Name = strings.TrimSuffix(*t.ServerName, ".")
	}
	e.protection = p
	if t.CACert == nil {
		p.System = true
	} else {
		text, err := Load(r, meshName, t.CACert)
		if err == nil {
			p.Roots, err = rootsIn(text)
		}
		if err := p.blame("caCert", err); err != nil {
			return nil, err
		}
	}
	pair, err := s.Client(r, meshName)
	if pair != nil && p.Wrong == "" {
		if p.Client, err = clientName(name, e, pair); err != nil {
			return nil, err
		}
	}
	if err := p.blame("clientCert", err); err != nil {
		return nil, err
	}
	return e, e.tell()
}

// tell fills in the digests of the protection. Roots are long and endpoints many, so that planners
// must not look through them again for each caller.
func (e *External) tell() (err error) {
	if e.digest, err = e.sum(*e.protection); err != nil {
		return err
	}
	demands := *e.protection
	if demands.Client != "" {
		demands.Client = presents
	}
	e.demands, err = e.sum(demands)
	return err
}

// presents stands for the name of any secret.
const presents = "presents"

func (e *External) sum(p ExternalProtection) (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode the protection of %s: %w", e.host, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Presented is a secret that proxies present to a service outside the mesh.
type Presented struct {
	// Name is the one in the protection of the service.
	Name string
	*ClientPair
}

// Presented returns what proxies present to the service of that name, nil if that is nothing. Its
// errors are those of [ExternalService.Resolved].
func (s *ExternalService) Presented(r model.Getter, meshName, name string) (*Presented, error) {
	e, err := s.Resolved(r, meshName, name)
	if err != nil {
		return nil, err
	}
	p := e.(*External).protection
	if p == nil || p.Client == "" || p.Wrong != "" {
		return nil, nil
	}
	pair, err := s.Client(r, meshName)
	if err != nil {
		return nil, err
	}
	return &Presented{p.Client, pair}, nil
}

// blame notes what is wrong with a source. An error that says nothing about the source is
// returned.
func (p *ExternalProtection) blame(field string, err error) error {
	f, is := errors.AsType[*fault.Error](err)
	switch {
	case err == nil:
		return nil
	case !is || f.Code != fault.Invalid && f.Code != fault.NotFound && f.Code != fault.TooLarge:
		return err
	case p.Wrong == "":
		p.Wrong = "networking.tls." + field + ": " + f.Detail
	}
	return nil
}

// Client returns what proxies present to the service, nil if that is nothing. Its errors are
// those of [Load], and those about the content, which quote nothing of it.
func (s *ExternalService) Client(r model.Getter, meshName string) (*ClientPair, error) {
	if s.Networking == nil || s.Networking.TLS == nil || s.Networking.TLS.ClientCert == nil || s.Networking.TLS.ClientKey == nil {
		return nil, nil
	}
	chain, err := Load(r, meshName, s.Networking.TLS.ClientCert)
	if err != nil {
		return nil, err
	}
	key, err := Load(r, meshName, s.Networking.TLS.ClientKey)
	if err != nil {
		return nil, err
	}
	return clientPair(chain, key)
}

// clientName returns the name of the secret with what proxies present to the ExternalService of a
// name, of which nothing else is missing. A certificate has one key, so the chain tells all of the
// content.
func clientName(name string, e *External, pair *ClientPair) (string, error) {
	text, err := json.Marshal(struct {
		Host       string
		Port       uint32
		Protection *ExternalProtection
		Chain      []byte
	}{e.host, e.port, e.protection, pair.Chain})
	if err != nil {
		return "", fmt.Errorf("encode the protection of ExternalService %s: %w", name, err)
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%s%s:%s", reserved.Fleeting, name, hex.EncodeToString(sum[:16])), nil
}

// ParseExternalClient returns the name of the ExternalService in the name of what proxies present
// to it.
func ParseExternalClient(secret string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(secret, reserved.Fleeting)
	if !ok {
		return "", false
	}
	i := strings.LastIndexByte(rest, ':')
	if i <= 0 {
		return "", false
	}
	return rest[:i], true
}
