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
	// Scope is the control plane that it is of.
	Scope string
	// Version counts the writes of the resource.
	Version uint64
	// Alternative says that there is a second pair.
	Alternative bool
}

func (c *Certificate) home() string { return c.Scope }

// leaveOut has nothing to note: no certificate is shown whose absence would open anything.
func (*Certificate) leaveOut() {}

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

// SNIs yields all server names in no particular order.
func (i *identities) SNIs() iter.Seq[*SNI] { return values(i.snis) }

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
	return &Certificate{ID: res.Name, Scope: res.Scope, Version: res.Version, Alternative: spec != nil && spec.CertAlt != ""}
}
