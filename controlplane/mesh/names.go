package mesh

import "strings"

// The tag keys with a meaning for the control plane.
const (
	TagService  = "mesh.io/service"
	TagProtocol = "mesh.io/protocol"
	TagZone     = "mesh.io/zone"
	TagInstance = "mesh.io/instance"
	TagMesh     = "mesh.io/mesh"
)

// Labels that the control plane sets.
const (
	LabelMesh = "mesh.io/mesh"
	LabelZone = "mesh.io/zone"
)

// HeaderTags is the request header for the tags of the source. No policy reads it, so proxies
// do not send it. They remove it from requests, so that nobody else can set it.
const HeaderTags = "x-mesh-tags"

// MetadataTags is the namespace of tags in the metadata of listeners.
const MetadataTags = "io.mesh.tags"

// MetadataTrust is the namespace of metadata in filter chains that says under which trust
// they were made.
const MetadataTrust = "io.mesh.trust"

// ALPN marks connections between proxies of a mesh.
const ALPN = "mesh"

// AnyValue matches every value of a tag.
const AnyValue = "*"

// Default is the mesh that exists after the first start.
const Default = "default"

// Protocols of inbounds and services.
const (
	ProtocolTCP   = "tcp"
	ProtocolHTTP  = "http"
	ProtocolHTTP2 = "http2"
	ProtocolGRPC  = "grpc"
	ProtocolKafka = "kafka"
)

// IsHTTP reports whether a protocol is routed request by request.
func IsHTTP(protocol string) bool {
	return protocol == ProtocolHTTP || protocol == ProtocolHTTP2 || protocol == ProtocolGRPC
}

// The names of secrets to which proxies subscribe.
const (
	secretIdentity = "identity_cert:secret:" //nolint:gosec // a name
	secretCA       = "mesh_ca:secret:"       //nolint:gosec // a name
)

// SecretIdentity returns the name of the secret with the certificate of a proxy of a mesh.
func SecretIdentity(mesh string) string { return secretIdentity + mesh }

// ParseIdentity returns the mesh in the name of the secret with the certificate of a proxy.
func ParseIdentity(secret string) (mesh string, ok bool) {
	mesh, ok = strings.CutPrefix(secret, secretIdentity)
	return mesh, ok && mesh != ""
}

// SecretCA returns the name of the secret with the authorities that a mesh trusts.
func SecretCA(mesh string) string { return secretCA + mesh }

// SecretCrossing is the name of the secret with the authorities of all meshes that may call gateways
// of other meshes. It is that of no mesh.
const SecretCrossing = "mesh_ca:crossing"

// SPIFFE returns the identity of a service.
func SPIFFE(mesh, service string) string { return "spiffe://" + mesh + "/" + service }

// EgressService is what the identity of an egress has in the place of a service. No proxy of a
// mesh gets an identity with it.
const EgressService = "zoneegress"

// TagURI returns the identity of one tag value; the key keeps its slash.
func TagURI(key, value string) string { return "mesh://" + key + "/" + value }

// BuiltinCert returns the name of the secret with the root of a builtin backend.
func BuiltinCert(mesh, backend string) string { return mesh + ".ca-builtin-cert-" + backend }

// BuiltinKey returns the name of the secret with the key of [BuiltinCert].
func BuiltinKey(mesh, backend string) string { return mesh + ".ca-builtin-key-" + backend }

// The prefixes of the secrets for signing and revoking dataplane tokens.
const (
	TokenSigningKey  = "dataplane-token-signing-key-" // + <mesh>-<serial>
	TokenRevocations = "dataplane-token-revocations-" // + <mesh>
	// TokenWithdrawnKey holds the public half of a signing key that was compromised. No token
	// of its serial is valid, whatever else exists for that serial.
	TokenWithdrawnKey = "dataplane-token-withdrawn-key-" // + <mesh>-<serial>
	// GatewayTokenRevocations is the global secret that lists the ids of revoked gateway
	// tokens, separated by commas.
	GatewayTokenRevocations = "gateway-token-revocations"
)

// The prefixes of the global secrets for signing and revoking tokens of the control plane,
// and what follows them. A serial follows a key.
const (
	UserToken        = "user-token"
	ZoneToken        = "zone-token"
	ZoneIngressToken = "zone-ingress-token"

	SigningKeySuffix   = "-signing-key-"
	WithdrawnKeySuffix = "-withdrawn-key-"
	RevocationsSuffix  = "-revocations"

	// AdminUserToken is the global secret with the first token of an administrator.
	AdminUserToken = "admin-user-token"
)

// NodeID returns the id of a proxy of a mesh. Mesh names contain no dot, so the first dot
// ends the mesh.
func NodeID(mesh, name string) string { return mesh + "." + name }
