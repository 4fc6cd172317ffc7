package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/contract"
)

// rolePrimary is what INFO calls a primary.
const rolePrimary = "master"

var errNotPrimary = errors.New("redis is not a primary")

// Server is what a server says about itself. What it refuses to say, to a user
// who may not ask or through a proxy, is empty.
type Server struct {
	// RunID is new with each start of the server.
	RunID string
	// ReplID names the history of its data; a replica that becomes a primary
	// begins a new one.
	ReplID string
	// Role is master or slave.
	Role string
	// Eviction is what it does when its memory is full, such as noeviction.
	Eviction string
	// Database is the one of its databases that is used.
	Database int
	// Ahead is by how much its clock is ahead of this machine's, at least; negative if
	// it is behind. 0 if the two may agree, or if it does not tell.
	Ahead time.Duration
	// Time is what its clock said when it was asked, zero if it does not tell.
	Time time.Time
}

// Identity names the server together with the data that it holds: it changes when
// the server is started anew, and when it has followed another one, whose data it
// then has. Another database holds other data. It is empty if the server does not
// tell.
func (s Server) Identity() string {
	id := s.RunID
	if id != "" && s.ReplID != "" {
		id += "/" + s.ReplID
	}
	if id != "" && s.Database != 0 {
		id += "#" + strconv.Itoa(s.Database)
	}
	return id
}

// Identify asks every server that the client writes to: one, or all primaries
// of a cluster that hold slots, as the cluster sees itself now. They are in the
// order of their run ids.
func Identify(ctx context.Context, c redis.UniversalClient) ([]Server, error) {
	database := 0
	if own, ok := c.(*client); ok {
		c, database = own.UniversalClient, own.database
	}
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		s, err := ask(ctx, c.Pipeline(), database)
		if err != nil {
			return nil, err
		}
		return []Server{s}, nil
	}
	var (
		mu  sync.Mutex
		all []Server
	)
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		s, err := ask(ctx, c.Pipeline(), 0)
		mu.Lock()
		all = append(all, s)
		mu.Unlock()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("identify the primaries of redis: %w", err)
	}
	if len(all) == 0 {
		return nil, errors.New("the redis cluster has no primaries")
	}
	slices.SortFunc(all, func(a, b Server) int { return cmp.Compare(a.RunID, b.RunID) })
	return all, nil
}

// ask sends one question for each section: older servers take no lists of them,
// and some know some sections only.
func ask(ctx context.Context, pipe redis.Pipeliner, database int) (Server, error) {
	sections := []*redis.StringCmd{pipe.Info(ctx, "server"), pipe.Info(ctx, "replication"), pipe.Info(ctx, "memory")}
	before := time.Now()
	_, _ = pipe.Exec(ctx) // each answer has its own error, see stamp
	after := time.Now()
	s := Server{Database: database}
	if err := s.learn(sections); err != nil {
		return Server{}, err
	}
	if !s.Time.IsZero() {
		s.Ahead = contract.Ahead(s.Time, before, after, 0)
	}
	return s, nil
}

// learn takes what was answered about sections of INFO.
func (s *Server) learn(sections []*redis.StringCmd) error {
	for _, cmd := range sections {
		text, err := cmd.Result()
		if refused(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("identify redis: %w", err)
		}
		s.parse(text)
	}
	return nil
}

// refused reports whether an answer says that INFO may not be asked, or is not
// understood. Other codes say how the server is at the moment (BUSY, LOADING): that
// must not pass for a server which never tells, for such a one is not pinned.
func refused(err error) bool {
	var said redis.Error
	if !errors.As(err, &said) || errors.Is(err, errNotSent) {
		return false
	}
	text := said.Error()
	code, _, _ := strings.Cut(text, " ")
	switch code {
	case "NOPERM":
		return true
	case "ERR":
		return !strings.HasPrefix(text, "ERR max number of clients")
	default: // proxies answer without a code
		return code != strings.ToUpper(code)
	}
}

// parse takes what it knows from the lines name:value of a section.
func (s *Server) parse(text string) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "run_id":
			s.RunID = value
		case "master_replid":
			s.ReplID = value
		case "role":
			s.Role = value
		case "maxmemory_policy":
			s.Eviction = value
		case "server_time_usec":
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				s.Time = time.UnixMicro(n)
			}
		}
	}
}
