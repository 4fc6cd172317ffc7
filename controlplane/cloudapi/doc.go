// Package cloudapi serves the cloud API: the third dialect over the one description of kinds.
//
// Its paths begin with /v2, its errors are problem documents with a list of invalid parameters, its
// times are RFC 3339. Whoever calls it has a personal access token.
package cloudapi
