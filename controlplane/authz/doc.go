// Package authz runs the authorization service of package extauthz in a process of meshgate:
// that of `meshgate authz`, or that of the agent of a gateway whose filter.mode is extauthz.
// It shows in metrics what the dynamic module shows in Envoy's statistics, under the same
// names, so that dashboards and alerts need not know the difference.
package authz
