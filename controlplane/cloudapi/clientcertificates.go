package cloudapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

const pathCertificate = "certificateId"

// clientCertificates are the client certificates of a control plane or group in an API. Groups have
// them although they are read-only otherwise: they are about its gateways, not about its entities.
func (p planes) clientCertificates() served {
	return served{p.api, &Collection{
		Kind: cloud.ClientCertificates, Title: "Client certificate", Missing: "The requested client certificate or its control plane was not found.",
		At: func(r *http.Request) admit.Address {
			return admit.Address{
				Kind: cloud.ClientCertificates, Key: strings.ToLower(r.PathValue(pathCertificate)),
				Under: &admit.Relation{Address: p.address(r), Ref: cloud.IndexControlPlane},
			}
		},
	}}
}

// certificateEndpoints lists the endpoints of client certificates. Whoever lists one lets gateways in,
// as with a token.
func (p planes) certificateEndpoints(item string) []httpkit.Endpoint {
	list := item + "/" + cloud.ClientCertificates.Path
	one := list + "/{" + pathCertificate + "}"
	const given, shown = schemaCertificateGiven, schemaCertificate
	return []httpkit.Endpoint{
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: list, Auth: access.Read, Summary: "List the client certificates of data plane nodes", Handler: p.listCertificates}, "", http.StatusOK, schemaCertificates, paramSize, paramNumber),
		does(httpkit.Endpoint{Method: http.MethodPost, Pattern: list, Auth: access.Own, Summary: "Let nodes with a client certificate in", Handler: p.createCertificate}, given, http.StatusCreated, shown),
		does(httpkit.Endpoint{Method: http.MethodGet, Pattern: one, Auth: access.Read, Summary: "Read a client certificate", Handler: p.getCertificate}, "", http.StatusOK, shown),
		does(httpkit.Endpoint{Method: http.MethodPut, Pattern: one, Auth: access.Own, Summary: "Replace a client certificate", Handler: p.putCertificate}, given, http.StatusOK, shown),
		does(httpkit.Endpoint{Method: http.MethodDelete, Pattern: one, Auth: access.Own, Summary: "Delete a client certificate, and disconnect its nodes", Handler: p.removeCertificate}, "", http.StatusNoContent, ""),
	}
}

// certificate is a client certificate as this API shows it.
type certificate struct {
	ID        string `json:"id"`
	Cert      string `json:"cert"`
	Title     string `json:"title,omitempty"`
	CreatedAt int64  `json:"created_at"`
	UpdatedAt int64  `json:"updated_at"`
}

func certificateOf(res *model.Resource) certificate {
	c := res.Spec.(*cloud.ClientCertificate)
	return certificate{ID: res.Name, Cert: c.Cert, Title: c.Title, CreatedAt: res.Created.Unix(), UpdatedAt: latest(res.Created, res.Modified).Unix()}
}

func (p planes) listCertificates(w http.ResponseWriter, r *http.Request) {
	items := []certificate{}
	size, number, err := pages(r)
	if err == nil {
		err = p.view(r, func(reader store.Reader, plane *model.Resource) error {
			rows, err := reader.List(cloud.ClientCertificates, ofPlane(plane.Name))
			for _, row := range rows {
				items = append(items, certificateOf(row))
			}
			return err
		})
	}
	if err != nil {
		p.api.fail(w, r, err, p.Collection)
		return
	}
	from := min((number-1)*size, len(items))
	to := min(from+size, len(items))
	page := map[string]any{"total": len(items)}
	if to < len(items) {
		page["next"] = next(r, number, size)
	}
	p.reply(w, r, http.StatusOK, map[string]any{"items": items[from:to], "page": page})
}

// next is the path of the page after a page.
func next(r *http.Request, number, size int) string {
	return fmt.Sprintf("%s?page%%5Bnumber%%5D=%d&page%%5Bsize%%5D=%d", r.URL.Path, number+1, size)
}

// ofPlane selects the client certificates of a control plane.
func ofPlane(id string) store.Query { return store.Query{Index: cloud.IndexControlPlane, Value: id} }

func (p planes) getCertificate(w http.ResponseWriter, r *http.Request) {
	res, err := p.clientCertificates().read(r)
	p.answerCertificate(w, r, http.StatusOK, res, err)
}

// answerCertificate answers with a client certificate.
func (p planes) answerCertificate(w http.ResponseWriter, r *http.Request, status int, res *model.Resource, err error) {
	if err != nil {
		p.api.fail(w, r, err, p.clientCertificates().Collection)
		return
	}
	httpkit.EntryOf(r.Context()).Name = res.Name
	p.reply(w, r, status, map[string]any{"item": certificateOf(res)})
}

// certificateGiven reads the body of a write. What does not exist was said before.
func (p planes) certificateGiven(w http.ResponseWriter, r *http.Request) (*cloud.ClientCertificate, error) {
	var spec cloud.ClientCertificate
	err := form{p.clientCertificates().Collection}.fill(p.api, w, r, &spec)
	return &spec, err
}

func (p planes) createCertificate(w http.ResponseWriter, r *http.Request) {
	err := p.view(r, func(store.Reader, *model.Resource) error { return nil })
	var spec *cloud.ClientCertificate
	if err == nil {
		spec, err = p.certificateGiven(w, r)
	}
	var res *model.Resource
	if err == nil {
		_, err = p.api.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error {
			plane, err := admit.Lookup(tx, p.address(r))
			if err != nil {
				return err
			}
			n, err := tx.Count(cloud.ClientCertificates, ofPlane(plane.Name))
			if err == nil && n >= cloud.MaxClientCertificates {
				err = conflicting(fmt.Sprintf("The control plane has %d client certificates, and cannot have more", cloud.MaxClientCertificates))
			}
			if err != nil {
				return err
			}
			spec.ControlPlane = plane.Name
			res, err = tx.Create(&model.Resource{Kind: cloud.ClientCertificates, Name: uuid.NewString(), Spec: spec, Created: p.api.Now()})
			return err
		})
	}
	p.answerCertificate(w, r, http.StatusCreated, res, err)
}

// putCertificate replaces a client certificate. Nodes with the former are disconnected.
func (p planes) putCertificate(w http.ResponseWriter, r *http.Request) {
	s := p.clientCertificates()
	res, err := s.read(r)
	var spec *cloud.ClientCertificate
	if err == nil {
		spec, err = p.certificateGiven(w, r)
	}
	if err == nil {
		_, err = p.api.Gate.Write(r.Context(), model.Config, func(tx store.Tx) error {
			was, err := admit.Lookup(tx, s.address(r))
			if err != nil {
				return err
			}
			spec.ControlPlane = was.Spec.(*cloud.ClientCertificate).ControlPlane
			res, err = tx.Update(&model.Resource{Kind: cloud.ClientCertificates, Name: was.Name, Spec: spec}, was.Version)
			return err
		})
		p.judgeNodes(r)
	}
	p.answerCertificate(w, r, http.StatusOK, res, err)
}

func (p planes) removeCertificate(w http.ResponseWriter, r *http.Request) {
	s := p.clientCertificates()
	_, err := p.api.Gate.Delete(r.Context(), s.address(r))
	p.judgeNodes(r)
	if err != nil {
		p.api.fail(w, r, err, s.Collection)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// judgeNodes ends what nodes have open whose client certificate is listed no more, before a request is
// answered. That the caller leaves must not keep it open.
func (p planes) judgeNodes(r *http.Request) {
	if p.api.Planes.Recheck != nil {
		p.api.Planes.Recheck(context.WithoutCancel(r.Context()))
	}
}
