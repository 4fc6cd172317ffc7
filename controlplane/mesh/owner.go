package mesh

// Labels that mark a Dataplane, or a proxy of a zone, that its proxy has registered and removes.
// LabelOwner says which kind of proxy has registered it.
const (
	LabelOwner = "mesh.io/owned-by"
	// LabelInstance distinguishes the agent that has registered it from earlier and later ones
	// with the same name.
	LabelInstance = "mesh.io/instance"
	// LabelStarting is "true" at a proxy of a zone whose agent has registered it and whose Envoy does
	// not listen yet. It has to be registered to be sent what it listens on, and nobody calls it.
	LabelStarting = "mesh.io/starting"
	// OwnerProxy is an Envoy without an agent, which registers only once.
	OwnerProxy = "proxy"
	// OwnerAgent is an agent, which registers again whenever its Dataplane is gone. So the
	// Dataplane may be removed while the agent is away.
	OwnerAgent = "agent"
)

// IsStarting reports by its labels whether a proxy of a zone does not listen yet.
func IsStarting(labels map[string]string) bool {
	return labels[LabelStarting] == "true" && OwnerOf(labels) == OwnerAgent
}

// OwnerOf returns by its labels which kind of proxy has registered a Dataplane, or a proxy of a
// zone. It is empty if an operator has written it.
func OwnerOf(labels map[string]string) string {
	switch who := labels[LabelOwner]; who {
	case OwnerProxy, OwnerAgent:
		return who
	}
	return ""
}
