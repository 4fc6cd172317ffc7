package mesh

// Labels that mark a Dataplane, or a proxy of a zone, that its proxy has registered and removes.
// LabelOwner says which kind of proxy has registered it.
const (
	LabelOwner = "mesh.io/owned-by"
	// LabelInstance distinguishes the agent that has registered it from earlier and later ones
	// with the same name.
	LabelInstance = "mesh.io/instance"
	// OwnerProxy is an Envoy without an agent, which registers only once.
	OwnerProxy = "proxy"
	// OwnerAgent is an agent, which registers again whenever its Dataplane is gone. So the
	// Dataplane may be removed while the agent is away.
	OwnerAgent = "agent"
)

// OwnerOf returns by its labels which kind of proxy has registered a Dataplane, or a proxy of a
// zone. It is empty if an operator has written it.
func OwnerOf(labels map[string]string) string {
	switch who := labels[LabelOwner]; who {
	case OwnerProxy, OwnerAgent:
		return who
	}
	return ""
}
