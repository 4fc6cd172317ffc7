package framework

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/onsi/gomega"
)

// Mesh calls the mesh API with a JSON document (or none).
func (a *API) Mesh(method, path string, doc any) *Response {
	var body []byte
	header := http.Header{}
	if doc != nil {
		body, _ = json.Marshal(doc)
		header.Set("Content-Type", "application/json")
	}
	r, err := Do(a.HTTP, method, fmt.Sprintf("http://127.0.0.1:%d%s", a.c.Mesh, path), header, string(body))
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	if v := r.Header.Get("X-Mesh-Revision"); v != "" {
		a.Revision = v
	}
	return r
}

// Document is a resource of the mesh API.
type Document map[string]any

// Put stores a document under the path that its type, mesh and name say.
func (a *API) Put(path string, d Document) *Response {
	url := "/" + path + "/" + d["name"].(string)
	if m, ok := d["mesh"].(string); ok {
		url = "/meshes/" + m + url
	}
	r := a.Mesh(http.MethodPut, url, d)
	gomega.ExpectWithOffset(1, r.Status).To(gomega.BeElementOf(http.StatusOK, http.StatusCreated), url+": "+r.Body)
	return r
}

// Get reads a document of the mesh API.
func (a *API) Get(path string) map[string]any {
	r := a.Mesh(http.MethodGet, path, nil)
	gomega.ExpectWithOffset(1, r.Status).To(gomega.Equal(http.StatusOK), path+": "+r.Body)
	return r.JSON()
}

// Delete removes a document of a mesh.
func (a *API) Delete(mesh, path, name string) {
	r := a.Mesh(http.MethodDelete, "/meshes/"+mesh+"/"+path+"/"+name, nil)
	gomega.ExpectWithOffset(1, r.Status).To(gomega.Equal(http.StatusOK), r.Body)
}

// DataplaneToken asks for the token of a dataplane.
func (a *API) DataplaneToken(mesh, name, validFor string) string {
	r := a.Mesh(http.MethodPost, "/tokens/dataplane", map[string]any{"name": name, "mesh": mesh, "validFor": validFor})
	gomega.ExpectWithOffset(1, r.Status).To(gomega.Equal(http.StatusOK), r.Body)
	return r.Body
}

// MeshURL is the address of a path of the mesh API.
func (a *API) MeshURL(path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", a.c.Mesh, path)
}

// ZoneToken asks for the token of proxies of a zone.
func (a *API) ZoneToken(zone string, scope ...string) string {
	r := a.Mesh(http.MethodPost, "/tokens/zone", map[string]any{"zone": zone, "scope": scope, "validFor": "24h"})
	gomega.ExpectWithOffset(1, r.Status).To(gomega.Equal(http.StatusOK), r.Body)
	return r.Body
}
