package meshca

import (
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Signers describes the authority that signs in a mesh, and the phase of its rotation. It
// fails with NotFound if there is no authority.
func Signers(r store.Reader, meshName string) (phase string, current identity.Described, pending *identity.Described, err error) {
	res, err := r.Get(Authorities, meshName, meshName)
	if err != nil {
		return "", identity.Described{}, nil, err
	}
	a := res.Spec.(*Authority)
	if current, err = identity.Describe(a.Current.Certificate); err != nil {
		return "", identity.Described{}, nil, fault.Wrap(fault.Internal, err, "the authority of mesh %s cannot be read", meshName)
	}
	if a.Pending != nil {
		d, err := identity.Describe(a.Pending.Certificate)
		if err != nil {
			return "", identity.Described{}, nil, fault.Wrap(fault.Internal, err, "the next authority of mesh %s cannot be read", meshName)
		}
		pending = &d
	}
	return a.Phase, current, pending, nil
}
