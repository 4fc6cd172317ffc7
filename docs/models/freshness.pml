/* A model of docs/adr/0003-freshness.md: one control plane and what its
 * predecessors have left on the way, a Redis and the server that replaces it, one
 * run directory of a filter, two tokens, and every order of what may happen to
 * them. It holds the promise: after a revocation was answered with success, the
 * filter accepts no record that was read before it.
 *
 * Token 0 is revoked by itself (its tombstone takes the place of its record in
 * Redis), token 1 by its owner (whose floor stands beside the record).
 *
 * Each BUG_x is a mistake of an earlier version, or a rule left out; the checker
 * must find how it breaks the promise (docs/models/check). README.md says what is
 * not in the model.
 *
 * Ghost values (now, *_at) say what is true; no rule reads them.
 */
#define K 2
#define ALL 255		/* of a filter that believes no Redis */
#ifndef FAULTS
#define FAULTS 2	/* how many faults happen in one run */
#endif
#ifndef COMMITS
#define COMMITS 3	/* how many commits */
#endif
/* ONLY0 and ONLY1 leave one token out, NO_REDIS leaves Redis out: both make room
 * for more of the rest. NO_FAILOVER, NO_ENDS (of the filter), NO_SLEEP and
 * NO_BACKUP (of the store) leave out what their names say.
 * ANONYMOUS is a Redis that does not tell which server it is.
 * REPEATS lets a worker answer from verdicts that it has proven (ADR 25).
 * READS lets time pass between reading a record and its turn to be written. */

/* The store, and a copy of it from which it may be restored. known: the filter of
 * the run directory; o_known: those that ran there before. */
byte rev, token[K], tomb[K];
bit n_known, o_known;
byte old_rev, old_token[K], old_tomb[K];
bit old_store;

/* Ghosts: a clock of commits, and the commit that was last answered for. */
byte now, gone_at[K], sure_at[K], old_sure_at[K];

/* The control plane's process. */
bit up = 1;
byte log = 1, pos, placed[K];	/* placed: where the log holds the newest tombstone of a token */
byte held[K], held_rev[K];	/* the newest tombstone of a token that the log holds: while another one waits, the one before */
bit waits[K];			/* committed, not yet published */
bit live;			/* it counts the filter as able to answer from L1 */
bit granted;			/* a Granted is on its way, and its lease still lives */
bit carried;			/* a Granted is on its way */
bit unended[K];			/* the filter held a lease when the tombstone was published */
byte acked;
byte covered, o_covered;	/* up to where each needs no Redis that holds the revocations */
byte none_at, some_at;		/* the last trust that took all away; the first told since */
bit heard;			/* the filter has confirmed that its trust is on disk */
bit inorder, withdrawn = 1, uncertain;
bit clean;			/* the process before this one has ended in order */
byte synced, servers_at;	/* up to where Redis holds the log; since when its servers are named, 0 if all have heard it */
bit unheard, its_told;		/* its_told: persisted that all have */
bit ordering;
byte replayed;

/* What the control plane has persisted or remembers of Redis. */
byte epoch, next_epoch = 1, its_server, its_epoch, its_log, its_pos, may_pos;

/* Redis, and another copy of it: a replica, or the former server that still runs. */
byte server = 1, clock_epoch, clock_log, clock_pos;
byte cell[K], cell_rev[K], cell_epoch[K], cell_at[K];	/* cell: 0 nothing, 1 record, 2 tombstone */
byte floor, floor_epoch;	/* of the owner, revision + 1 */
mtype = { NONE, REPLICA, FORMER, INVALIDATE, TRUST, GRANTED };
mtype other = NONE;
byte o_epoch, o_log, o_pos, o_cell[K], o_rev[K], o_cell_epoch[K], o_at[K], o_floor, o_floor_epoch;

/* A write without an answer, of this process or of one before it: 1 the record of
 * token 0, 2 the floor of the owner, 3 the clock. */
byte late, late_a, late_epoch, late_at;
bit late_former;		/* its server is the former one */

#ifdef READS
/* A record of token 0 that was read and is not written yet: when, under which epoch, and
 * whether something was published about the token since. */
byte read_rev, read_at, read_epoch;
bit read_old;

inline unread() { read_rev = 0; read_at = 0; read_epoch = 0; read_old = 0 }
#endif

/* The link: both ends, and what is on the way to the filter. Frames of a process
 * that was killed still arrive. */
bit c_link, f_link;
chan q = [3] of { mtype, byte, byte, byte, byte };	/* kind, from, to, and floors, or epoch and server */

/* The filter. */
byte f_log, applied, f_floor[K];
bit f_gen;
byte l1[K], l1_rev[K], l1_at[K];
bit leased, asleep;
byte f_epoch, f_server, f_at;	/* trust in force, and its position */
byte d_epoch, d_server;		/* on disk */
bit f_saved = 1;
byte ans, ans_rev, ans_at;	/* an answer of introspection that is under way: token + 1 */
bit ans_gen;

#ifdef REPEATS
/* What a worker remembers: kept is a verdict whose proof the page still bears out, kept_at
 * the record that it was made of. proving is a proof under way, of token proving - 1, and
 * unchanged says that the page is as it was when that began. Counters of the page only grow,
 * so what one has outdated never holds again. */
bit kept[K], unchanged, lost;
byte kept_at[K], proving, proving_at;

inline outdate(k) {
	kept[k] = 0; kept_at[k] = 0;
	if :: proving == k + 1 -> unchanged = 0 :: else fi
}

/* forget_verdicts is another generation of the page, or a worker that ends. */
inline forget_verdicts() { outdate(0); outdate(1) }
#endif

byte faults, commits;
hidden byte say0, say1;
hidden byte written;

inline start_anew() {
	leased = 0; applied = 0; f_gen = 1 - f_gen;
	l1[0] = 0; l1[1] = 0; l1_rev[0] = 0; l1_rev[1] = 0; l1_at[0] = 0; l1_at[1] = 0;
	f_floor[0] = 0; f_floor[1] = 0;
#ifdef REPEATS
#ifndef BUG_PAGE_LOG	/* the page stays as it is when the memory begins anew */
	forget_verdicts()
#endif
#endif
}

/* f_dies ends the filter's process; the next one has what is on disk. */
inline f_dies() {
	start_anew();
#ifdef REPEATS
	forget_verdicts(); proving = 0; proving_at = 0; unchanged = 0;
#endif
	f_gen = 0; f_log = 0; f_link = 0; f_epoch = d_epoch; f_server = d_server; f_at = 0; f_saved = 1;
	ans = 0; ans_rev = 0; ans_at = 0; ans_gen = 0
}

/* says is what an Invalidate tells: the floors of the tokens that it is about. */
inline says(one, two) {
	say0 = 0; say1 = 0;
	if :: one -> say0 = held_rev[0] :: else fi;
	if :: two -> say1 = held_rev[1] :: else fi
}

inline send(kind, a, b, c, d) {
	if
	:: c_link && (len(q) < 3) -> q!kind, a, b, c, d
	:: c_link && (len(q) == 3) -> c_link = 0	/* the filter does not read: disconnected */
	:: else
	fi
}

/* put_tomb writes what a revocation writes to Redis. */
inline put_tomb(k) {
	if
	:: k == 0 -> cell[0] = 2; cell_rev[0] = 0; cell_epoch[0] = 0; cell_at[0] = 0
	:: else -> floor = held_rev[1] + 1; floor_epoch = epoch
	fi
}

/* covers says that no known filter takes the state before a position from any Redis. */
#define covers(p)	((!n_known || covered >= p) && (!o_known || o_covered >= p))
#ifdef BUG_FORMER	/* Redis counts, whichever server a filter still believes */
#define in_redis(p)	(synced >= p)
#else
#define in_redis(p)	(synced >= p && (servers_at == 0 || covers(servers_at)))
#endif
#define l1_safe(k)	(!unended[k] || acked >= placed[k])
#ifdef NO_REDIS
#define l2_safe(k)	1
#else
#define l2_safe(k)	(covers(placed[k]) || in_redis(placed[k]))
#endif
#define settled(k)	(!waits[k] && (placed[k] == 0 || (l1_safe(k) && l2_safe(k))))

inline fill(k, r, at) {
	if
	:: r >= f_floor[k] && (!l1[k] || l1_rev[k] <= r) -> l1[k] = 1; l1_rev[k] = r; l1_at[k] = at
	:: else
	fi
}

inline revoke(k) {
	d_step { rev++; commits++; now++; tomb[k] = rev; token[k] = 0; gone_at[k] = now; waits[k] = 1; placed[k] = 0 }
}

/* tell makes a trust the one in force. */
inline tell(e) {
	pos++; withdrawn = (e == 0);
	if
	:: e == 0 -> none_at = pos; some_at = 0
	:: else ->
		if :: some_at == 0 -> some_at = pos :: else fi;
		if :: covered == ALL && c_link -> covered = pos :: else fi
	fi;
	send(TRUST, pos - 1, pos, e, its_server)
}

/* as_left says that the clock stands as it was written. */
#ifdef BUG_COMPARE	/* a clock is written over whatever stands there */
#define as_left	1
#else
#define as_left	(clock_epoch == its_epoch && clock_log == its_log && (clock_pos == its_pos || (may_pos != 0 && clock_pos == may_pos)))
#endif

/* publish is the publisher's turn: all that waits becomes one batch. sent says
 * whether it was written to Redis. If the clock that it replaced is another one, that
 * does not count. */
inline publish(sent) {
	d_step {
		written = sent && as_left;
		if :: sent && !as_left -> uncertain = 1 :: else fi;
		if :: waits[0] -> held_rev[0] = tomb[0] :: else fi;
		if :: waits[1] -> held_rev[1] = tomb[1] :: else fi;
#ifdef BUG_ORDER	/* positions are given at the commit, and broadcast in another order */
		if
		:: waits[0] && waits[1] -> placed[0] = pos + 1; placed[1] = pos + 2; held[0] = pos + 1; held[1] = pos + 2; pos = pos + 2;
			if :: sent -> put_tomb(0); put_tomb(1) :: else fi;
			says(0, 1);
			send(INVALIDATE, applied, pos, say0, say1);
			says(1, 0);
			send(INVALIDATE, applied, pos - 1, say0, say1);
		:: else ->
#endif
		pos++;
		if :: waits[0] -> placed[0] = pos; held[0] = pos; if :: sent -> put_tomb(0) :: else fi :: else fi;
		if :: waits[1] -> placed[1] = pos; held[1] = pos; if :: sent -> put_tomb(1) :: else fi :: else fi;
		says(waits[0], waits[1]);
		send(INVALIDATE, pos - 1, pos, say0, say1);
#ifdef BUG_ORDER
		fi;
#endif
#ifdef READS
		if :: waits[0] && read_rev > 0 -> read_old = 1 :: else fi;
#endif
		if :: waits[0] -> unended[0] = live; waits[0] = 0 :: else fi;
		if :: waits[1] -> unended[1] = live; waits[1] = 0 :: else fi;
		if
		:: sent -> clock_epoch = epoch; clock_log = log; clock_pos = pos
		:: else
		fi;
		if
		:: written -> synced = pos; its_epoch = epoch; its_log = log; its_pos = pos; may_pos = 0
		:: else ->
			inorder = 0;
#ifndef BUG_WITHDRAW	/* trust is not withdrawn when a revocation cannot be written */
			if :: !withdrawn -> tell(0) :: else fi
#else
			synced = pos
#endif
		fi
	}
}


/* write puts a record and the floor of its owner into Redis. */
inline write(k) {
	cell[k] = 1; cell_rev[k] = rev; cell_epoch[k] = epoch; cell_at[k] = now;
	if :: k == 1 -> floor = tomb[1] + 1; floor_epoch = epoch :: else fi
}

inline replay(after) {
#ifndef BUG_NO_REPLAY	/* tombstones are not written again */
	if
	:: held[0] > after && token[0] == 0 -> put_tomb(0)
#ifndef BUG_RECREATED	/* a token that was created again is left as it stands */
	:: held[0] > after && token[0] > 0 -> write(0)
#endif
	:: else
	fi;
	if :: held[1] > after -> put_tomb(1) :: else fi
#else
	skip
#endif
}

/* decide is the keeper's first half: it draws a new epoch if what Redis holds cannot
 * be vouched for, and writes what the log holds. */
inline decide() {
	d_step {
		if
		:: epoch == 0 || uncertain || server != its_server || clock_epoch != its_epoch || clock_log != its_log || (its_pos != 0 && clock_pos != its_pos && (may_pos == 0 || clock_pos != may_pos)) ->
#ifdef BUG_SAME_EPOCH	/* the epoch stays, whatever happened to Redis */
			if :: epoch == 0 -> epoch = next_epoch; next_epoch++ :: else fi
#else
			epoch = next_epoch; next_epoch++
#endif
		:: else
		fi;
		if
		:: server != its_server -> unheard = 1; its_told = 0
		:: else
		fi;
		its_server = server; its_epoch = clock_epoch; its_log = clock_log; its_pos = clock_pos; may_pos = 0; uncertain = 0;	/* what stands there */
		replay(0);
		if
		:: token[1] > 0 && held[1] > 0 -> write(1)	/* created again */
		:: else
		fi;
		replayed = pos; ordering = 1
	}
}

/* order is its second half: what was published meanwhile, the clock, and trust. */
inline order() {
	d_step {
		ordering = 0;
		replay(replayed);
		written = as_left;
		clock_epoch = epoch; clock_log = log; clock_pos = pos + 1;
		its_epoch = epoch; its_log = log; its_pos = pos + 1;
		if
		:: written ->
			synced = pos + 1; inorder = 1;
			if :: unheard -> servers_at = pos + 1; unheard = 0 :: else fi;
			tell(epoch)
		:: else -> uncertain = 1
		fi;
		replayed = 0
	}
}

/* stop ends the process, and with it what only the process knew. */
inline stop() {
	up = 0; c_link = 0; pos = 0; acked = 0; heard = 0; synced = 0; servers_at = 0; inorder = 0; withdrawn = 1;
	covered = 0; o_covered = 0; none_at = 0; some_at = 0; its_pos = 0; may_pos = 0; uncertain = 0; unheard = 0;
	ordering = 0; replayed = 0; waits[0] = 0; waits[1] = 0; placed[0] = 0; placed[1] = 0; held[0] = 0; held[1] = 0; held_rev[0] = 0; held_rev[1] = 0; unended[0] = 0; unended[1] = 0
#ifdef READS
	; unread()
#endif
}

/* start is a new process of the control plane on the store. */
inline start() {
	d_step {
		up = 1; log++; unheard = !its_told;
#ifdef BUG_KILLED	/* what a killed process had sent is taken for done or not done */
		uncertain = 0;
#else
		uncertain = !clean;
#endif
		clean = 0;
#ifdef BUG_INTRODUCE	/* a filter is welcomed before it is in the store */
		n_known = 0; o_known = 0;
#endif
#ifdef BUG_FIRST_LEASE	/* leases that the predecessor gave are forgotten */
		live = 0; granted = 0;
#else
		live = (n_known || o_known);
#endif
#ifndef BUG_NO_OUTBOX	/* what was committed and not published is forgotten */
		if :: tomb[0] > 0 -> pos = 1; placed[0] = 1; held[0] = 1; held_rev[0] = tomb[0]; unended[0] = live :: else fi;
		if :: tomb[1] > 0 -> pos = 1; placed[1] = 1; held[1] = 1; held_rev[1] = tomb[1]; unended[1] = live :: else fi
#endif
	}
}

/* adopt is a trust that the filter puts in force; it goes to disk later. */
inline adopt(e, s, p) {
	f_epoch = e; f_server = (e > 0 -> s : 0); f_at = p; heard = 0;
	f_saved = (d_epoch == f_epoch && d_server == f_server)
}

/* hear notes that every filter that is known believes no other servers. */
inline hear() {
	if
	:: servers_at > 0 && covers(servers_at) -> servers_at = 0;
#ifdef BUG_TOLD		/* although it is others by now that were persisted */
		its_told = 1
#else
		its_told = !unheard
#endif
	:: else
	fi
}

/* confirm is an acknowledgement of a trust that is on disk. */
inline confirm() {
	heard = 1;
	if
	:: f_epoch == 0 && f_at >= none_at && withdrawn -> covered = ALL
	:: f_epoch == 0 && f_at >= none_at && !withdrawn -> covered = some_at
	:: f_epoch > 0 && covered < f_at -> covered = f_at
	:: else
	fi;
	hear()
}

/* connect is Hello and Welcome, and the replay behind them. */
inline connect() {
	d_step {
		do :: (len(q) > 0) -> q?_, _, _, _, _ :: (len(q) == 0) -> break od;
		granted = 0; carried = 0;
		f_link = 1; c_link = 1;
		if :: !n_known -> n_known = 1; covered = 0 :: else fi;
#ifdef BUG_STORE_BACK	/* a filter keeps what it has, whoever welcomes it */
		if :: applied > pos -> applied = pos :: else fi; f_log = log;
#else
		if :: f_log != log -> start_anew(); f_log = log :: else fi;
#endif
#ifdef REPEATS
		if :: lost -> f_floor[0] = rev; f_floor[1] = rev :: else fi;
#endif
		acked = 0;
		if :: !withdrawn && covered == ALL -> covered = pos :: else fi;
		adopt((withdrawn -> 0 : epoch), its_server, pos);
		if
#ifdef REPEATS
		:: applied < pos && lost -> q!INVALIDATE, applied, pos, 0, 0
		:: applied < pos && !lost ->
#else
		:: applied < pos ->
#endif
			says(held[0] > applied, held[1] > applied); q!INVALIDATE, applied, pos, say0, say1
#ifdef BUG_RESUME	/* who has applied everything has confirmed the trust of the welcome */
		:: applied == pos -> confirm()
#endif
		:: else
		fi;
#ifdef REPEATS
		lost = 0
#endif
	}
}

inline receive() {
	byte from, to, a, b;
	atomic {
		if
		:: q?INVALIDATE, from, to, a, b ->
			if
#ifndef BUG_ORDER	/* what was applied is the newest position seen */
			:: from != applied -> f_link = 0	/* a gap: the link ends, unacknowledged */
#endif
			:: else ->
				if :: a > f_floor[0] -> f_floor[0] = a; if :: l1_rev[0] < a -> l1[0] = 0; l1_rev[0] = 0; l1_at[0] = 0 :: else fi :: else fi;
				if :: b > f_floor[1] -> f_floor[1] = b; if :: l1_rev[1] < b -> l1[1] = 0; l1_rev[1] = 0; l1_at[1] = 0 :: else fi :: else fi;
#ifdef REPEATS
				if :: a > 0 -> outdate(0) :: else fi;
#ifndef BUG_PAGE_OWNER	/* what revokes an owner is not counted on the page */
				if :: b > 0 -> outdate(1) :: else fi;
#endif
#endif
				if :: to > applied -> applied = to :: else fi
			fi
		:: q?TRUST, from, to, a, b ->
			if
#ifndef BUG_ORDER
			:: from != applied -> f_link = 0
#endif
			:: else -> adopt(a, b, to); applied = to
			fi
		:: q?GRANTED, from, to, a, b ->
			if
#ifdef BUG_SLEEP	/* the clock of the lease stands while the host sleeps */
			:: 1 -> leased = 1
#else
			:: granted -> leased = 1
#endif
			:: else
			fi;
			granted = 0; carried = 0
		fi;
		from = 0; to = 0; a = 0; b = 0
	}
}

/* believes says whether the filter may use the record of a token in Redis. */
#ifdef ANONYMOUS
#define here	(leased && f_link)	/* nobody can tell one server from another */
#define there	(leased && f_link && other == FORMER)
#elif defined(BUG_SERVER)	/* any server with the right epoch is believed */
#define here	1
#define there	(other == FORMER)
#else
#define here	(f_server == server)
#define there	(other == FORMER && f_server == server - 1)
#endif
#ifdef BUG_EPOCH	/* the epoch is what Redis says */
#define same_epoch(e, c)	(c > 0 && e == c)
#else
#define same_epoch(e, c)	(f_epoch > 0 && c == f_epoch && e == f_epoch)
#endif
#ifdef BUG_FLOOR	/* an owner without a floor has revoked nothing */
#define allows(k, f, e, r)	(k == 0 || f == 0 || (e == f_epoch && r >= f - 1))
#elif defined(BUG_LATE_FLOOR)	/* a floor of any epoch counts */
#define allows(k, f, e, r)	(k == 0 || (f > 0 && r >= f - 1))
#else
#define allows(k, f, e, r)	(k == 0 || (f > 0 && e == f_epoch && r >= f - 1))
#endif
#ifdef BUG_BEHIND	/* the position of the clock is not looked at */
#define not_behind(l, p)	1
#else
#define not_behind(l, p)	(l != f_log || p >= applied)
#endif
#define believes(k)	(here && cell[k] == 1 && same_epoch(cell_epoch[k], clock_epoch) && not_behind(clock_log, clock_pos) && allows(k, floor, floor_epoch, cell_rev[k]) && cell_rev[k] >= f_floor[k])
#define believed(k)	(there && o_cell[k] == 1 && same_epoch(o_cell_epoch[k], o_epoch) && not_behind(o_log, o_pos) && allows(k, o_floor, o_floor_epoch, o_rev[k]) && o_rev[k] >= f_floor[k])
#define hits(k)		(leased && l1[k] && l1_rev[k] >= f_floor[k])
#ifdef BUG_PAGE_LEASE	/* what is proven holds without a lease */
#define repeats(k)	kept[k]
#else
#define repeats(k)	(leased && kept[k])
#endif
#define learns(r, k)	(!l1[k] || l1_rev[k] < r)

/* forget is no event: nobody can read the former server any more. */
inline forget() {
	if
	:: other == FORMER && !late_former && its_server == server && (f_epoch == 0 || f_server == server) && (d_epoch == 0 || d_server == server) ->
		other = NONE; o_epoch = 0; o_log = 0; o_pos = 0; o_floor = 0; o_floor_epoch = 0;
		o_cell[0] = 0; o_rev[0] = 0; o_cell_epoch[0] = 0; o_at[0] = 0; o_cell[1] = 0; o_rev[1] = 0; o_cell_epoch[1] = 0; o_at[1] = 0
	:: else
	fi
}

/* check answers who waits for a revocation as soon as nobody can accept it any more:
 * an earlier answer promises more. "Already gone" is answered by the same rule. Then
 * no request that the filter lets through may be older than an answer. */
inline check() {
	d_step {
#ifndef ANONYMOUS
#ifndef BUG_SERVER
		forget();
#endif
#endif
#ifdef BUG_ALREADY_GONE	/* "already gone" is said at once */
		if :: up && token[0] == 0 && tomb[0] > 0 -> sure_at[0] = gone_at[0] :: else fi;
#else
		if :: up && token[0] == 0 && tomb[0] > 0 && settled(0) -> sure_at[0] = gone_at[0] :: else fi;
		if :: up && token[1] == 0 && tomb[1] > 0 && settled(1) -> sure_at[1] = gone_at[1] :: else fi;
#endif
		if
		:: !asleep ->
			assert(!hits(0) || l1_at[0] >= sure_at[0]);
			assert(!hits(1) || l1_at[1] >= sure_at[1]);
#ifdef REPEATS
			assert(!repeats(0) || kept_at[0] >= sure_at[0]);
			assert(!repeats(1) || kept_at[1] >= sure_at[1]);
#endif
			assert(!believes(0) || cell_at[0] >= sure_at[0]);
			assert(!believes(1) || cell_at[1] >= sure_at[1]);
			assert(!believed(0) || o_at[0] >= sure_at[0]);
			assert(!believed(1) || o_at[1] >= sure_at[1])
		:: else
		fi
	}
}

/* lose makes a write one without an answer. */
inline lose(what, a) {
	late = what; late_a = a; late_epoch = epoch; late_at = (what == 3 -> log : now); late_former = 0
}

inline swap(x, y) { x = x ^ y; y = x ^ y; x = x ^ y }

#ifdef REPEATS
#ifdef BUG_PAGE_ORDER	/* the record is read before the page */
inline proves_first(k) { proving_at = l1_at[k] }
inline proves_then(k) { kept[k] = 1; kept_at[k] = proving_at }
#else
inline proves_first(k) { skip }
inline proves_then(k) {
	if :: hits(k) && unchanged -> kept[k] = 1; kept_at[k] = l1_at[k] :: else fi
}
#endif
#endif

#define room	(len(q) < 3)
#define fault	(faults < FAULTS)

active proctype world() {
	d_step {
		rev = 1; now = 1;
#ifndef ONLY1
		token[0] = 1;
#endif
#ifndef ONLY0
		token[1] = 1
#endif
	}
	do
	:: atomic {
	if
	/* Callers. */
	:: up && commits < COMMITS && token[0] > 0 -> revoke(0)
	:: up && commits < COMMITS && token[1] > 0 -> revoke(1)
#ifndef ONLY1
	:: up && commits < COMMITS && token[0] == 0 && !waits[0] && tomb[0] > 0 -> d_step { rev++; commits++; now++; token[0] = rev }	/* the same value is created again */
#endif
#ifndef ONLY0
	:: up && commits < COMMITS && token[1] == 0 && !waits[1] && tomb[1] > 0 -> d_step { rev++; commits++; now++; token[1] = rev }
#endif
	/* The control plane. */
	:: up && (waits[0] || waits[1]) && room && inorder -> publish(1)
	:: up && (waits[0] || waits[1]) && room -> publish(0)
#ifndef NO_REDIS
	:: up && !inorder && !ordering && room && next_epoch < 6 -> decide()
	:: up && !inorder && ordering && room -> order()
	:: up && inorder && (server != its_server || clock_epoch != its_epoch || clock_log != its_log || clock_pos != its_pos) -> inorder = 0	/* it watches */
	:: up && inorder && token[0] > 0 && cell[0] != 1 -> d_step { write(0) }
	:: up && inorder && token[1] > 0 && (cell[1] != 1 || cell_epoch[1] != epoch || floor == 0 || floor_epoch != epoch) -> d_step { write(1) }
#ifdef READS
	:: up && inorder && read_rev == 0 && token[0] > 0 -> d_step { read_rev = rev; read_at = now; read_epoch = epoch }
	:: read_rev > 0 ->
		d_step {
			if
#ifdef BUG_TURN	/* what was published since a record was read is not asked for */
			:: up && inorder && read_epoch == epoch ->
#else
			:: up && inorder && read_epoch == epoch && !read_old ->
#endif
				cell[0] = 1; cell_rev[0] = read_rev; cell_epoch[0] = read_epoch; cell_at[0] = read_at
			:: else
			fi;
			unread()
		}
#endif
	/* A write without an answer: it is carried out, or not, at any time. */
	:: up && inorder && late == 0 && token[0] > 0 && fault ->
		d_step {
			faults++; lose(1, rev); inorder = 0;
#ifndef BUG_UNCERTAIN	/* it is taken for not done */
			uncertain = 1
#endif
		}
#ifndef ONLY0
	:: up && inorder && late == 0 && fault -> d_step { faults++; lose(2, tomb[1] + 1); inorder = 0; uncertain = 1 }
#endif
	:: up && inorder && late == 0 && fault -> d_step { faults++; lose(3, pos + 1); inorder = 0; may_pos = pos + 1 }
	:: late > 0 ->
		d_step {
			if
			:: late == 1 && !late_former -> cell[0] = 1; cell_rev[0] = late_a; cell_epoch[0] = late_epoch; cell_at[0] = late_at
			:: late == 1 && late_former -> o_cell[0] = 1; o_rev[0] = late_a; o_cell_epoch[0] = late_epoch; o_at[0] = late_at
			:: late == 2 && !late_former -> floor = late_a; floor_epoch = late_epoch
			:: late == 2 && late_former -> o_floor = late_a; o_floor_epoch = late_epoch
			:: late == 3 && !late_former -> clock_epoch = late_epoch; clock_log = late_at; clock_pos = late_a
			:: late == 3 && late_former -> o_epoch = late_epoch; o_log = late_at; o_pos = late_a
			fi;
			late = 0; late_a = 0; late_epoch = 0; late_at = 0; late_former = 0
		}
#endif
	:: up && c_link && f_link && room && !live && !carried -> d_step { live = 1; granted = 1; carried = 1; q!GRANTED, 0, 0, 0, 0 }
	:: live && (!leased || asleep) -> d_step { live = 0; granted = 0; unended[0] = 0; unended[1] = 0 }	/* its own lease was shorter */
	/* An acknowledgement says what is applied, and whether what it believes is on disk. */
	:: up && c_link && f_link && f_log == log && acked < applied -> acked = applied
#ifdef BUG_DURABLE	/* what is applied is taken for what is on disk */
	:: up && c_link && f_link && f_log == log && !heard && acked >= f_at -> d_step { confirm() }
#else
	:: up && c_link && f_link && f_log == log && !heard && acked >= f_at && f_saved -> d_step { confirm() }
#endif
	/* The filter. */
	:: up && !f_link && !asleep && room -> connect()
#ifdef REPEATS
	:: up && !f_link && !asleep && room && f_log != log -> lost = 1; connect()	/* the log has lost what came first: there is a floor for all */
	/* A worker reads the page and then the record, or begins again. */
	:: !asleep && proving == 0 && hits(0) && !kept[0] -> d_step { proving = 1; unchanged = 1; proves_first(0) }
	:: !asleep && proving == 0 && hits(1) && !kept[1] -> d_step { proving = 2; unchanged = 1; proves_first(1) }
	:: !asleep && proving > 0 -> d_step { proves_then(proving - 1); proving = 0; proving_at = 0; unchanged = 0 }
#endif
	:: f_link && !asleep && (len(q) > 0) -> receive()
	:: !f_saved && !asleep -> d_step { f_saved = 1; d_epoch = f_epoch; d_server = f_server }
	:: leased && !asleep -> leased = 0
	:: !asleep && up && f_link && c_link && ans == 0 && token[0] > 0 -> d_step { ans = 1; ans_rev = rev; ans_at = now; ans_gen = f_gen }
	:: !asleep && up && f_link && c_link && ans == 0 && token[1] > 0 -> d_step { ans = 2; ans_rev = rev; ans_at = now; ans_gen = f_gen }
	:: !asleep && ans > 0 ->
		d_step {
			if
#ifdef BUG_GENERATION	/* an answer from before starting anew is kept */
			:: 1 -> fill(ans - 1, ans_rev, ans_at)
#else
			:: ans_gen == f_gen -> fill(ans - 1, ans_rev, ans_at)
#endif
			:: else
			fi;
			ans = 0; ans_rev = 0; ans_at = 0; ans_gen = 0
		}
#ifndef NO_REDIS
	:: !asleep && believes(0) && learns(cell_rev[0], 0) -> d_step { fill(0, cell_rev[0], cell_at[0]) }
	:: !asleep && believes(1) && learns(cell_rev[1], 1) -> d_step { fill(1, cell_rev[1], cell_at[1]) }
	:: !asleep && believed(0) && learns(o_rev[0], 0) -> d_step { fill(0, o_rev[0], o_at[0]) }
	:: !asleep && believed(1) && learns(o_rev[1], 1) -> d_step { fill(1, o_rev[1], o_at[1]) }
#endif
	/* Faults. */
	:: fault && f_link -> d_step { faults++; f_link = 0 }	/* the control plane hears of it later, or at once: */
	:: !f_link && c_link -> c_link = 0
	:: !c_link && f_link -> f_link = 0	/* and the filter of its end, after some of what was sent */
	/* The control plane is killed: what it had sent is on its way, to the filter and to Redis. */
	:: fault && up -> d_step { faults++; stop() }
#ifndef NO_REDIS
	:: fault && up && inorder && late == 0 && token[0] > 0 -> d_step { faults++; lose(1, rev); stop() }
#ifndef ONLY0
	:: fault && up && inorder && late == 0 -> d_step { faults++; lose(2, tomb[1] + 1); stop() }
#endif
	:: fault && up && inorder && late == 0 -> d_step { faults++; lose(3, pos + 1); stop() }
	:: fault && up && !uncertain && its_log == log -> d_step { faults++; clean = 1; stop() }
#endif
	:: !up && log < 4 -> start()
#ifndef NO_ENDS
	/* The filter's process ends, and another one begins with what is on disk. */
	:: fault ->
		d_step {
			faults++; f_dies();
			if
			:: n_known && o_known && covered < o_covered -> o_covered = covered
			:: n_known && !o_known -> o_known = 1; o_covered = covered
			:: else
			fi;
			n_known = 0; covered = 0
		}
	/* The agent has said that it ended: forgotten. */
#ifdef BUG_ENDED	/* although none is known yet that stands for what is on disk */
	:: up && o_known -> d_step { o_known = 0; o_covered = 0 }
#else
	:: up && o_known && n_known -> d_step { o_known = 0; o_covered = 0; hear() }
#endif
	:: fault && up && c_link && f_link && !asleep ->	/* a goodbye */
		d_step {
			faults++;
#ifndef BUG_BYE		/* what it believed stays on disk */
			d_epoch = 0; d_server = 0;
#endif
			f_dies(); c_link = 0; n_known = 0; covered = 0; live = 0; granted = 0; unended[0] = 0; unended[1] = 0
		}
#endif
#ifndef NO_SLEEP
	:: fault && !asleep -> d_step { faults++; asleep = 1 }
	:: asleep ->
		d_step {
			asleep = 0;
#ifndef BUG_SLEEP
			leased = 0
#endif
		}
#endif
#ifndef NO_REDIS
#ifndef NO_FAILOVER
	:: fault && other == NONE && inorder ->
		d_step {
			other = REPLICA; faults++;
			o_epoch = clock_epoch; o_log = clock_log; o_pos = clock_pos; o_floor = floor; o_floor_epoch = floor_epoch;
			o_cell[0] = cell[0]; o_rev[0] = cell_rev[0]; o_cell_epoch[0] = cell_epoch[0]; o_at[0] = cell_at[0];
			o_cell[1] = cell[1]; o_rev[1] = cell_rev[1]; o_cell_epoch[1] = cell_epoch[1]; o_at[1] = cell_at[1]
		}
	:: other == REPLICA ->	/* it takes over, as it was; the former server runs on */
		d_step {
			other = FORMER; late_former = (late > 0);
#ifndef ANONYMOUS
			server++;
#ifndef BUG_PIN		/* the control plane writes to whoever answers */
			inorder = 0;
#endif
#endif
			ordering = 0; replayed = 0;
			swap(clock_epoch, o_epoch); swap(clock_log, o_log); swap(clock_pos, o_pos); swap(floor, o_floor); swap(floor_epoch, o_floor_epoch);
			swap(cell[0], o_cell[0]); swap(cell_rev[0], o_rev[0]); swap(cell_epoch[0], o_cell_epoch[0]); swap(cell_at[0], o_at[0]);
			swap(cell[1], o_cell[1]); swap(cell_rev[1], o_rev[1]); swap(cell_epoch[1], o_cell_epoch[1]); swap(cell_at[1], o_at[1])
		}
#endif
	:: fault && inorder -> d_step { faults++; inorder = 0 }		/* a reset connection */
	:: fault && cell[0] > 0 -> d_step { faults++; cell[0] = 0; cell_rev[0] = 0; cell_epoch[0] = 0; cell_at[0] = 0 }	/* eviction */
#ifndef ONLY0
	:: fault && floor > 0 -> d_step { faults++; floor = 0; floor_epoch = 0 }
#endif
#endif
#ifndef NO_BACKUP
	:: fault && !old_store && up ->
		d_step { old_store = 1; faults++; old_rev = rev; old_token[0] = token[0]; old_token[1] = token[1]; old_tomb[0] = tomb[0]; old_tomb[1] = tomb[1]; old_sure_at[0] = sure_at[0]; old_sure_at[1] = sure_at[1] }
	:: old_store && !up ->	/* the store comes back as it was: what was revoked since is revoked no more */
		d_step {
			old_store = 0; rev = old_rev; token[0] = old_token[0]; token[1] = old_token[1]; tomb[0] = old_tomb[0]; tomb[1] = old_tomb[1];
			sure_at[0] = old_sure_at[0]; sure_at[1] = old_sure_at[1]; gone_at[0] = sure_at[0]; gone_at[1] = sure_at[1];
			its_epoch = 0; clean = 0; its_told = 0;	/* the clock in Redis is not of its time */
#ifdef LIMIT_RESTORED	/* it does not know of filters that came later */
			n_known = 0; o_known = 0;
#endif
			old_rev = 0; old_token[0] = 0; old_token[1] = 0; old_tomb[0] = 0; old_tomb[1] = 0; old_sure_at[0] = 0; old_sure_at[1] = 0
		}
#endif
	fi;
	check()
	}
	od
}
