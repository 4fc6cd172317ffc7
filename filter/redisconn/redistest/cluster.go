package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// StartCluster runs three primaries and a replica of the first one. It returns when the
// cluster is complete.
func StartCluster(t testing.TB) (servers [4]*Server) {
	t.Helper()
	slots := []string{"0 5460", "5461 10922", "10923 16383"}
	for i := range servers {
		servers[i] = StartMember(t, "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0")
		if i < len(slots) {
			servers[i].CLI(t, append([]string{"CLUSTER", "ADDSLOTSRANGE"}, strings.Fields(slots[i])...)...)
		}
		servers[i].CLI(t, "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
		if i > 0 {
			servers[0].Meet(t, servers[i])
		}
	}
	first := servers[0].CLI(t, "CLUSTER", "MYID")
	Until(t, "the replica knows its primary", func() bool {
		return strings.Contains(servers[3].CLI(t, "CLUSTER", "NODES"), first) && servers[3].CLI(t, "CLUSTER", "REPLICATE", first) == "OK"
	})
	for _, s := range servers {
		Until(t, "the cluster is whole", func() bool {
			return strings.Contains(s.CLI(t, "CLUSTER", "INFO"), "cluster_state:ok") && strings.Count(s.CLI(t, "CLUSTER", "NODES"), "\n") == 3 &&
				strings.Contains(s.CLI(t, "CLUSTER", "NODES"), "slave")
		})
	}
	servers[3].AwaitFollowing(t)
	return servers
}

// AwaitFollowing waits until the server is a replica that has the data of its primary.
func (s *Server) AwaitFollowing(t testing.TB) {
	t.Helper()
	Until(t, "the replica follows", func() bool {
		replication := s.CLI(t, "INFO", "replication")
		return strings.Contains(replication, "role:slave") && strings.Contains(replication, "master_link_status:up")
	})
}

// TakeOver makes a replica the primary of its primary's slots without the consent of the
// others, and waits until it answers as such.
func (s *Server) TakeOver(t testing.TB) {
	t.Helper()
	if said := s.CLI(t, "CLUSTER", "FAILOVER", "TAKEOVER"); said != "OK" {
		t.Fatalf("no primary: %s", said)
	}
	Until(t, "it is a primary", func() bool {
		return strings.Contains(s.CLI(t, "INFO", "replication"), "role:master") && strings.Contains(s.CLI(t, "CLUSTER", "INFO"), "cluster_state:ok")
	})
}

// Until waits for a state that servers bring about.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		}
	}
}
