package access

// Right is what an endpoint needs.
type Right string

// The rights.
const (
	// Open endpoints answer everybody who can reach the port.
	Open Right = "open"
	// Known endpoints describe the API. They need a caller with any identity if there are
	// roles.
	Known Right = "known"
	// Read and Write concern the resources of a scope.
	Read  Right = "read"
	Write Right = "write"
	// Own concerns a scope itself, such as the trust of a mesh. Without roles it is the same
	// as Write.
	Own Right = "own"
	// Administrator endpoints reveal credentials, or what guards a scope.
	Administrator Right = "administrator"
	// The rights that settings can give to others than administrators.
	AdminResources  Right = "admin resources"
	DataplaneTokens Right = "dataplane tokens"
	UserTokens      Right = "user tokens"
	ZoneTokens      Right = "zone tokens"
	ConfigDump      Right = "config dump"
	Stats           Right = "stats"
	Clusters        Right = "clusters"
	Metadata        Right = "metadata"
)

// Rights lists all rights.
var Rights = []Right{
	Open, Known, Read, Write, Own, Administrator,
	AdminResources, DataplaneTokens, UserTokens, ZoneTokens, ConfigDump, Stats, Clusters, Metadata,
}

// Grantable lists the rights that settings can give; see [Static].
var Grantable = []Right{AdminResources, DataplaneTokens, UserTokens, ZoneTokens, ConfigDump, Stats, Clusters, Metadata}

// needs is the least role that a right needs.
func (r Right) needs() level {
	switch r {
	case Open, Known:
		return none
	case Read:
		return viewer
	case Write:
		return editor
	case Own, Administrator, AdminResources, DataplaneTokens, UserTokens, ZoneTokens, ConfigDump, Stats, Clusters, Metadata:
	}
	return admin
}

// Scope is where something is done: in a mesh, in a control plane of gateways or, if both are
// empty, everywhere.
type Scope struct {
	Mesh, ControlPlane string
	// Somewhere asks whether it may be done in any mesh. Whoever asks this decides later
	// about the mesh that is meant, or shows only the meshes that may be seen.
	Somewhere bool
}

// String names a scope in texts for people.
func (s Scope) String() string {
	switch {
	case s.Mesh != "":
		return "mesh " + s.Mesh
	case s.ControlPlane != "":
		return "control plane " + s.ControlPlane
	case s.Somewhere:
		return "any mesh"
	}
	return "the whole control plane"
}
