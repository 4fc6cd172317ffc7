package cloudapi

import (
	"maps"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// The formats of texts that a body is refused for.
const (
	formatUUID = "uuid"
	formatTime = "date-time"
)

// bodies describes the bodies of requests that are no resources, or not quite. A body must not be refused
// as unknown for a member that is described here: who generates a client from the document would send it.
func bodies() schemas {
	registration := writtenOf(cloud.Developers.Schema)
	delete(registration.Properties, "status") // the portal decides about it
	plane := changeOf(cloud.ControlPlanes.Schema)
	delete(plane.Properties, fieldClusterType) // what it is stays
	return schemas{
		"audit_log_webhook":              formatted(changeOf(webhookForm.Kind.Schema), formatUUID, fieldDestination),
		"audit_log_replay_job_request":   formatted(writtenOf(replayForm.Kind.Schema), formatTime, "start_at", "end_at"),
		"portal_authentication_settings": changeOf(settingsForm.Kind.Schema),
		"portal_registration":            registration,
		"portal_verification":            formatted(writtenOf(verificationForm.Kind.Schema), formatUUID, "token"),
		"portal_reset":                   formatted(writtenOf(resetForm.Kind.Schema), formatUUID, "token"),
		"portal_credentials":             writtenOf(loginForm.Kind.Schema),

		cloud.ControlPlanes.Name + suffixRequest: writtenOf(cloud.ControlPlanes.Schema),
		cloud.ControlPlanes.Name + suffixChange:  plane,
		schemaMembers:                            membersSchema(0, cloud.MaxMembers),
		schemaSomeMembers:                        membersSchema(1, cloud.MaxAtOnce),
		schemaCertificateGiven:                   writtenOf(cloud.ClientCertificates.Schema),
	}
}

// amend sets what the bodies of resources take beside what their kinds say, and what they do not.
func amend(out schemas) {
	developer := out[cloud.Developers.Name+suffixRequest]
	maps.Copy(developer.Properties, writtenOf(extraForm.Kind.Schema).Properties)
	out[cloud.Developers.Name+suffixChange] = changeOf(changeForm.Kind.Schema)
	token := formatted(out[cloud.AccessTokens.Name+suffixRequest], formatTime, "expires_at")
	token.Properties[fieldPlanes].MaxItems = new(int64(maxPlanesOfToken))
}

// writtenOf describes a whole resource in a request, changeOf one that changes it.
func writtenOf(s *model.Schema) *openapi.Schema { return withoutMeta(s, kinds.Given(s)) }

func changeOf(s *model.Schema) *openapi.Schema { return withoutMeta(s, kinds.Patch(s)) }

// withoutMeta removes what belongs to the resource: [served.foreignMembers] refuses it.
func withoutMeta(s *model.Schema, out *openapi.Schema) *openapi.Schema {
	for i := range s.Fields {
		if s.Fields[i].Meta {
			delete(out.Properties, s.Fields[i].Name)
		}
	}
	return out
}

// formatted sets the format of members. It changes the schema.
func formatted(s *openapi.Schema, format string, members ...string) *openapi.Schema {
	for _, name := range members {
		s.Properties[name].Format = format
	}
	return s
}

// membersSchema describes a body that names control planes, from so many to so many.
func membersSchema(least, most int64) *openapi.Schema {
	list := openapi.List(openapi.Closed(schemas{pathID: {Type: openapi.Types{openapi.Text}, Format: formatUUID}}, pathID))
	list.MinItems, list.MaxItems = &least, &most
	return openapi.Closed(schemas{fieldMembers: list}, fieldMembers)
}
