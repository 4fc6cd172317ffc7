package resource

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// hcmType is the type of the filter that asks for route tables.
const hcmType = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"

// These are the numbers of the fields that lead from a listener to the name of a route table.
const (
	listenerFilterChains       = 3  // envoy.config.listener.v3.Listener.filter_chains
	listenerDefaultFilterChain = 25 // .default_filter_chain
	chainFilters               = 3  // envoy.config.listener.v3.FilterChain.filters
	filterTypedConfig          = 4  // envoy.config.listener.v3.Filter.typed_config
	anyTypeURL                 = 1  // google.protobuf.Any.type_url
	anyValue                   = 2  // .value
	managerRDS                 = 3  // HttpConnectionManager.rds
	rdsRouteConfigName         = 2  // Rds.route_config_name
)

// routesOf returns the names of the route tables that a listener requests by RDS, each once
// and in order. Bytes that are not a listener have none.
func routesOf(listener []byte) (names []string) {
	each(listener, func(n protowire.Number, chain []byte) {
		if n != listenerFilterChains && n != listenerDefaultFilterChain {
			return
		}
		each(chain, func(n protowire.Number, filter []byte) {
			if n == chainFilters {
				names = append(names, routesOfFilter(filter)...)
			}
		})
	})
	slices.Sort(names)
	return slices.Compact(names)
}

func routesOfFilter(filter []byte) (names []string) {
	each(filter, func(n protowire.Number, config []byte) {
		if n != filterTypedConfig || string(field(config, anyTypeURL)) != hcmType {
			return
		}
		if name := field(field(field(config, anyValue), managerRDS), rdsRouteConfigName); len(name) > 0 {
			names = append(names, string(name))
		}
	})
	return names
}

// field returns the last value of a field of a message, or nil.
func field(message []byte, number protowire.Number) (value []byte) {
	each(message, func(n protowire.Number, v []byte) {
		if n == number {
			value = v
		}
	})
	return value
}

// each visits the length-delimited fields of a message: messages and texts. It stops at
// malformed bytes.
func each(message []byte, visit func(protowire.Number, []byte)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return
		}
		visit(number, value)
		message = message[n:]
	}
}
