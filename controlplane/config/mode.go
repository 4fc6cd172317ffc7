package config

// The modes of control planes: one of a single zone, the one above several zones, and the one of
// a zone below it.
const (
	ModeStandalone = "standalone"
	ModeGlobal     = "global"
	ModeZone       = "zone"
)

// Modes are the values of the setting mode.
var Modes = []string{ModeStandalone, ModeGlobal, ModeZone}

// The environments: resources of meshes are written through the mesh API, or through
// Kubernetes.
const (
	EnvironmentUniversal  = "universal"
	EnvironmentKubernetes = "kubernetes"
)

// Environments are the values of the setting environment.
var Environments = []string{EnvironmentUniversal, EnvironmentKubernetes}
