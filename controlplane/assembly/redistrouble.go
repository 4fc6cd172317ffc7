package assembly

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/controlplane/health"
)

// redisCodes holds the findings for errors that the server itself reports, by the first word
// of the error.
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

// redisMeanwhile says what still works without Redis.
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
	if reason := health.Unreachable(err); reason != "" {
		return health.Finding{Reason: reason, Text: redisUnreachable[reason]}
	}
	return health.Finding{Reason: "not_in_order", Text: "it lost data, was replaced or cannot be used, and is put in order as soon as it can be"}
}

// redisUnreachable holds the texts for a Redis that cannot be reached.
var redisUnreachable = map[string]string{
	health.UnknownHost:      "its name is not known: correct redis.url, or the DNS",
	health.Refused:          "nothing listens there: start it, or correct redis.url",
	health.UnknownAuthority: "its certificate is from an authority that redis.caFile does not have",
	health.WrongName:        "its certificate is for other names than redis.url uses",
	health.ServerExpired:    "its certificate has expired, or the clock of this machine is wrong",
	health.NoTLS:            "it does not speak TLS: use redis:// in place of rediss://, or switch its TLS on",
	health.HangsUp:          "it ends connections at once: does it demand TLS (rediss://)?",
	health.Timeout:          "it does not answer in time: is it stopped, a firewall between, or (with rediss://) no TLS there?",
}

// redisState implements [revoke.Options.RedisState].
func redisState(b *health.Board) func(error) {
	return func(err error) {
		if err == nil {
			b.Good(conditionRedis)
			return
		}
		b.Set(conditionRedis, redisTrouble(err))
	}
}
