package meshapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// show returns a resource in the form of this API.
func show(e encodings, res *model.Resource) (any, error) {
	raw, err := e.document(res)
	return json.RawMessage(raw), err
}

// format returns the function that shows a resource in the requested format.
func format(r *http.Request) (func(encodings, *model.Resource) (any, error), error) {
	switch r.URL.Query().Get("format") {
	case "", "universal":
		return show, nil
	case "k8s", "kubernetes":
		return showIn(r.URL.Query().Get("namespace")), nil
	}
	return nil, fault.Violated([]fault.Violation{{Message: `"format" must be one of ["k8s", "kubernetes", "universal"]`}})
}

// object is a resource in the form of a custom resource.
type object struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Metadata   objectMeta        `json:"metadata"`
	Mesh       string            `json:"mesh,omitempty"`
	Type       string            `json:"type,omitempty"`
	Data       map[string][]byte `json:"data,omitempty"`
	Spec       json.RawMessage   `json:"spec,omitempty"`
}

type objectMeta struct {
	Name string `json:"name"`
	// Namespace is what the client asked for.
	Namespace         string            `json:"namespace,omitempty"`
	CreationTimestamp string            `json:"creationTimestamp"`
	Labels            map[string]string `json:"labels,omitempty"`
}

// showIn returns the function that shows a resource as a custom resource of a namespace.
func showIn(namespace string) func(encodings, *model.Resource) (any, error) {
	return func(e encodings, res *model.Resource) (any, error) {
		o, err := showObject(e, res)
		o.Metadata.Namespace = namespace
		return o, err
	}
}

// showObject shows a resource as a custom resource, and a secret as a core one.
func showObject(e encodings, res *model.Resource) (object, error) {
	o := object{
		Kind: res.Kind.Document.Type, APIVersion: "mesh.io/v1alpha1", Mesh: res.Scope,
		Metadata: objectMeta{Name: res.Name, CreationTimestamp: res.Created.UTC().Format(time.RFC3339), Labels: model.LabelsOf(res.Spec)},
	}
	if s, ok := res.Spec.(*mesh.Secret); ok {
		o.Kind, o.APIVersion, o.Data = "Secret", "v1", map[string][]byte{"value": s.Data}
		if o.Type = "system.mesh.io/secret"; res.Scope == "" {
			o.Type = "system.mesh.io/global-secret"
		}
		return o, nil
	}
	raw, err := e.spec(res.Kind, res.Spec)
	if err != nil {
		return o, err
	}
	if o.Spec = raw; wrapped(res.Kind) {
		var doc struct{ Spec json.RawMessage }
		err = json.Unmarshal(raw, &doc)
		o.Spec = doc.Spec
	}
	return o, err
}
