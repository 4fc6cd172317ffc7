package cloudapi

import (
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// The schemas of control planes beside those of their kind.
const (
	schemaMembers      = "control_plane_members"
	schemaSomeMembers  = "control_plane_members_some"
	schemaMembersPage  = "control_plane_members_page"
	schemaMemberStatus = "control_plane_member_status"
	schemaGroupStatus  = "control_plane_group_status"
	schemaNodes        = "control_plane_nodes"
	schemaHash         = "control_plane_hash"
	schemaOrganization = "organization"
	schemaOlder        = "control_plane_names"

	schemaCertificate      = "data_plane_certificate"
	schemaCertificateGiven = schemaCertificate + suffixRequest
	schemaCertificates     = schemaCertificate + suffixPage
)

// planeSchemas describes control planes.
func planeSchemas() schemas {
	text, count := func() *openapi.Schema { return openapi.Of(openapi.Text) }, openapi.Count
	record := openapi.Closed(schemas{
		"id": text(), "name": text(), "description": text(), "labels": {Type: openapi.Types{openapi.Object}, AdditionalProperties: text()},
		"config": openapi.Closed(schemas{
			"control_plane_endpoint": text(), "telemetry_endpoint": text(), "cluster_type": openapi.OneOf(cloud.TypeHybrid, cloud.TypePlane, cloud.TypeGroup),
			"auth_type": text(), "cloud_gateway": openapi.Of(openapi.Boolean), "proxy_urls": openapi.List(openapi.For[cloud.ProxyURL]()),
		}, "control_plane_endpoint", "telemetry_endpoint", "cluster_type", "auth_type", "cloud_gateway", "proxy_urls"),
		"created_at": openapi.Moment(), "updated_at": openapi.Moment(),
	}, "id", "name", "description", "labels", "config", "created_at", "updated_at")
	members := openapi.Closed(schemas{"page": openapi.Closed(schemas{"size": count(), "next": text().OrNull(), "total": count()}, "size", "next")}, "page")
	return schemas{
		cloud.ControlPlanes.Name: record, cloud.ControlPlanes.Name + suffixPage: (&Collection{Paging: byNumber}).page(openapi.To(cloud.ControlPlanes.Name)),
		schemaMembersPage:  openapi.Closed(schemas{"data": openapi.List(openapi.To(cloud.ControlPlanes.Name)), "meta": members}, "data", "meta"),
		schemaMemberStatus: openapi.Closed(schemas{"is_member": openapi.Of(openapi.Boolean)}, "is_member"),
		schemaGroupStatus: openapi.Closed(schemas{"item": openapi.Closed(schemas{
			"id": text(), "created_at": openapi.Moment(), "updated_at": openapi.Moment(), "state": openapi.OneOf(stateOK, stateConflict, stateUnknown), "conflicts": openapi.List(openapi.For[clashing]()),
		}, "id", "state", "conflicts")}, "item"),
		schemaNodes:        openapi.Closed(schemas{"items": openapi.List(openapi.For[node]()), "page": openapi.Closed(schemas{"total_count": count(), "next": text()}, "total_count")}, "items", "page"),
		schemaHash:         openapi.Closed(schemas{"expected_hash": text(), "created_at": openapi.Moment(), "updated_at": openapi.Moment()}, "expected_hash", "created_at", "updated_at"),
		schemaOrganization: openapi.For[located](),
		schemaCertificate:  openapi.Closed(schemas{"item": openapi.For[certificate]()}, "item"),
		schemaCertificates: openapi.Closed(schemas{
			"items": openapi.List(openapi.For[certificate]()), "page": openapi.Closed(schemas{"total": count(), "next": text()}, "total"),
		}, "items", "page"),
		schemaOlder: openapi.Closed(schemas{"data": openapi.List(openapi.For[olderItem]()), "page": count(), "pageCount": count()}, "data", "page", "pageCount"),
	}
}
