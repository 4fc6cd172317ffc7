package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/filter/contract"
)

// redisCodes are the findings for what a server says itself, by the first word of its
// error.
var redisCodes = map[string]health.Finding{
	"WRONGPASS": {Reason: "wrong_password", Text: "it refuses user and password: correct redis.url"},
	"NOAUTH":    {Reason: "no_password", Text: "it wants a password: put it into redis.url"},
	"NOPERM":    {Reason: "no_permission", Text: "the user of redis.url may not do what is needed: docs/redis.md lists its rights"},
	"READONLY":  {Reason: "replica", Text: "it is a replica: redis.url must lead to the primary, or name the sentinels"},
	"OOM":       {Reason: "out_of_memory", Text: "its memory is full: raise maxmemory, or choose one of the policies volatile-*"},
	"LOADING":   {Reason: "loading", Text: "it reads its data from disk after a start: wait"},
	"MISCONF":   {Reason: "cannot_save", Text: "it refuses writes because it cannot save to its disk: look at its log"},
	"ERR":       {Reason: "refuses", Text: "it refuses what is asked: is it a Redis 6 or later, with that database?"},
}

// redisMeanwhile says what works without Redis.
const redisMeanwhile = "Proxies look tokens up at the control plane meanwhile, and traffic goes on as long as that runs"

// redisTrouble says what is the matter with Redis and what to do about it.
func redisTrouble(err error) health.Finding {
	f := redisCause(err)
	f.State = health.Degraded
	f.Text = fmt.Sprintf("redis: %s (%v). %s", f.Text, err, redisMeanwhile)
	return f
}

func redisCause(err error) health.Finding {
	var said redis.Error
	if errors.As(err, &said) {
		code, _, _ := strings.Cut(said.Error(), " ")
		if f, known := redisCodes[code]; known {
			return f
		}
	}
	switch text := err.Error(); {
	case strings.Contains(text, "redis is not a primary"):
		return redisCodes["READONLY"]
	case strings.Contains(text, "can't parse"), strings.Contains(text, "invalid reply"):
		return health.Finding{Reason: "not_redis", Text: "what answers there is no Redis: correct redis.url"}
	}
	return reachCause(err)
}

// reachCause tells why a server cannot be reached.
func reachCause(err error) health.Finding {
	var resolve *net.DNSError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var timeout net.Error
	switch {
	case errors.As(err, &resolve):
		return health.Finding{Reason: "unknown_host", Text: "its name is not known: correct redis.url, or the DNS"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return health.Finding{Reason: "refused", Text: "nothing listens there: start it, or correct redis.url"}
	case errors.As(err, &unknown):
		return health.Finding{Reason: "unknown_authority", Text: "its certificate is from an authority that redis.caFile does not have"}
	case errors.As(err, &name):
		return health.Finding{Reason: "wrong_name", Text: "its certificate is for other names than redis.url uses"}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return health.Finding{Reason: "certificate_expired", Text: "its certificate has ended, or the clock of this machine is wrong"}
	case errors.As(err, &record):
		return health.Finding{Reason: "no_tls", Text: "it does not speak TLS: use redis:// in place of rediss://, or switch its TLS on"}
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return health.Finding{Reason: "hangs_up", Text: "it ends connections at once: does it demand TLS (rediss://)?"}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return health.Finding{Reason: "timeout", Text: "it does not answer in time: is it stopped, a firewall between, or (with rediss://) no TLS there?"}
	}
	return health.Finding{Reason: "not_in_order", Text: "it lost data, was replaced or cannot be used, and is put in order as soon as it can be"}
}

// redisState is for [revoke.Options.RedisState].
func redisState(b *health.Board) func(error) {
	return func(err error) {
		if err == nil {
			b.Good(conditionRedis)
			return
		}
		b.Set(conditionRedis, redisTrouble(err))
	}
}

// redisAhead is for [revoke.Options.RedisAhead].
func redisAhead(b *health.Board, now func() time.Time) func(time.Duration) {
	return func(ahead time.Duration) {
		if ahead.Abs() <= contract.ClocksApart {
			b.Good(conditionClock)
			return
		}
		reason, here := cmp.Or(map[bool]string{true: "redis_ahead"}[ahead > 0], "redis_behind"), now().UTC()
		b.Set(conditionClock, health.Finding{State: health.Degraded, Reason: reason, Text: fmt.Sprintf(
			"the clock of this machine says %s, that of redis %s: one of them is wrong. Records in redis are dropped too early or too late by the difference, and tokens end by the clock of each proxy. Set both by a time server (timedatectl, chronyc tracking)",
			here.Format(time.RFC3339), here.Add(ahead).Format(time.RFC3339))})
	}
}
