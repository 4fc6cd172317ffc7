package view

import (
	"iter"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Certificate is what a view knows of a certificate. Views hold no private keys:
// the loop reads those from the store when a proxy asks for them.
type Certificate struct {
	ID string
	// Version counts the writes of the resource.
	Version uint64
	// Alternative says that there is a second pair.
	Alternative bool
}

type (
	// SNI is a server name in a view.
	SNI = Entry[gateway.SNI]
	// CACertificate is the certificate of an authority in a view.
	CACertificate = Entry[gateway.CACertificate]
)

// identities is the part of a control plane that says who is who in TLS.
type identities struct {
	certificates table[*Certificate]
	snis         table[*SNI]
	authorities  table[*CACertificate]
}

// Certificate returns a certificate by id.
func (i *identities) Certificate(id string) (*Certificate, bool) { return i.certificates.get(id) }

// SNIs yields all server names in no particular order.
func (i *identities) SNIs() iter.Seq[*SNI] { return values(i.snis) }

// CACertificate returns the certificate of an authority by id.
func (i *identities) CACertificate(id string) (*CACertificate, bool) { return i.authorities.get(id) }

// identitiesEdit is the next identities while it is being made.
type identitiesEdit struct {
	certificates *edit[*Certificate]
	snis         *edit[*SNI]
	authorities  *edit[*CACertificate]
}

func (i *identities) draft() identitiesEdit {
	return identitiesEdit{editOf(i.certificates), editOf(i.snis), editOf(i.authorities)}
}

func (d *identitiesEdit) freeze() identities {
	return identities{d.certificates.table, d.snis.table, d.authorities.table}
}

func certificateOf(res *model.Resource) *Certificate {
	spec, _ := res.Spec.(*gateway.Certificate)
	return &Certificate{ID: res.Name, Version: res.Version, Alternative: spec != nil && spec.CertAlt != ""}
}
