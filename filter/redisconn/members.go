package redisconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxMembers is the number of addresses that a cluster may name to one client. It is
	// more than twice the number of nodes of a cluster: Redis recommends a thousand at most.
	maxMembers = 2048
	// membersKept is how long an address counts after it was last named. The library forgets
	// a node after a minute, but not that it existed.
	membersKept = time.Hour
	// maxMemberName bounds an address in bytes; a host name has at most 253.
	maxMemberName = 300
)

var errMembers = errors.New("the redis cluster names more nodes than a cluster has")

// members are the addresses that a cluster has named. The library makes a client for each
// address, which costs kilobytes, and goes through all others each time. A lying member
// could name tens of thousands of addresses within one answer of allowed size, and others
// with the next one. The addresses of the URL are not included.
type members struct {
	mu    sync.Mutex
	named map[string]time.Time // when each was last named
}

func newMembers() *members { return &members{named: map[string]time.Time{}} }

// admit reports whether the cluster may name these addresses as well. If so, it remembers
// them.
func (m *members) admit(now time.Time, addresses []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := map[string]struct{}{}
	for _, address := range addresses {
		if len(address) > maxMemberName {
			return false
		}
		if _, known := m.named[address]; !known {
			fresh[address] = struct{}{}
		}
		if len(fresh) > maxMembers {
			return false
		}
	}
	if len(m.named)+len(fresh) > maxMembers && len(fresh) > 0 {
		m.forget(now)
	}
	if len(m.named)+len(fresh) > maxMembers && len(fresh) > 0 {
		return false
	}
	for _, address := range addresses {
		m.named[address] = now
	}
	return true
}

// forget drops addresses that have not been named for a long time.
func (m *members) forget(now time.Time) {
	for address, at := range m.named {
		if now.Sub(at) > membersKept {
			delete(m.named, address)
		}
	}
}

// redirected judges the text of an error, which may lead to another node.
func (m *members) redirected(text string) bool {
	if !strings.HasPrefix(text, "MOVED ") && !strings.HasPrefix(text, "ASK ") {
		return true
	}
	if len(text) >= maxText { // the end, where the address is, may be missing
		return false
	}
	return m.admit(time.Now(), []string{text[strings.LastIndexByte(text, ' ')+1:]})
}

// watch judges the node's answers about slots before the client of the cluster sees them.
func (m *members) watch(node *redis.Client) {
	node.AddHook(slotsHook{of: m, origin: node.Options().Addr})
}

// slotsHook is a hook of the client of one node.
type slotsHook struct {
	of     *members
	origin string
}

// DialHook implements [redis.Hook].
func (slotsHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (slotsHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements [redis.Hook].
func (h slotsHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		answer, ok := cmd.(*redis.ClusterSlotsCmd)
		if !ok || err != nil {
			return err
		}
		var addresses []string
		for _, slot := range answer.Val() {
			for _, node := range slot.Nodes {
				addresses = append(addresses, node.Addr)
				if seen := seenFrom(h.origin, node.Addr); seen != node.Addr {
					addresses = append(addresses, seen)
				}
			}
		}
		if !h.of.admit(time.Now(), addresses) {
			answer.SetErr(errMembers)
			return errMembers
		}
		return nil
	}
}

// seenFrom returns what the library may make of an address that the server at origin has
// named: it replaces a loopback address by that server's host, and port 0 by that server's
// port.
func seenFrom(origin, address string) string {
	host, port, err := net.SplitHostPort(address)
	ownHost, ownPort, failed := net.SplitHostPort(origin)
	if err != nil || failed != nil {
		return address
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		host = ownHost
	}
	if port == "0" {
		port = ownPort
	}
	return net.JoinHostPort(host, port)
}
