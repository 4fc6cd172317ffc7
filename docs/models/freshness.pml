/* A model of docs/adr/0003-freshness.md: one control plane, one Redis, one
 * filter, two tokens, and every order of what may happen to them. It holds the
 * promise: after a revocation was answered with success, the filter accepts no
 * record that was read before it.
 *
 * Token 0 is revoked by itself (its tombstone takes the place of its record in
 * Redis), token 1 by its owner (whose floor stands beside the record).
 *
 * Each BUG_x is a mistake of an earlier version, or a rule left out; the checker
 * must find how it breaks the promise (docs/models/check).
 *
 * Ghost values (now, *_at) say what is true; no rule reads them.
 */
#define K 2
#ifndef FAULTS
#define FAULTS 2	/* how many faults happen in one run */
#endif
#ifndef COMMITS
#define COMMITS 3	/* how many commits */
#endif
/* ONLY0 and ONLY1 leave one token out, NO_REDIS leaves Redis out: both make room
 * for more of the rest. */

/* The store, and a copy of it from which it may be restored. */
byte rev, token[K], tomb[K];
byte old_rev, old_token[K], old_tomb[K];
bit old_store;

/* Ghosts: a clock of commits, and the commit that was last answered for. */
byte now, gone_at[K], sure_at[K], old_sure_at[K];

/* The control plane's process. */
bit up = 1;
byte log = 1, pos, placed[K];	/* placed: where the log holds the tombstone of a token */
bit waits[K];			/* committed, not yet published */
bit asked[K];			/* somebody waits for the answer to a revocation */
bit live;			/* it counts the filter as able to answer from L1 */
bit granted;			/* a Granted is on its way, and its lease still lives */
bit carried;			/* a Granted is on its way */
bit unended[K];			/* the filter held a lease when the tombstone was published */
byte acked, trust_at;
bit heard;			/* the filter has confirmed the trust of its Welcome, or a later one */
bit inorder, withdrawn = 1, uncertain;
bit clean;			/* the process before this one has ended in order */
byte synced;			/* up to where Redis holds the log */

/* What the control plane has persisted or remembers of Redis. */
byte epoch, next_epoch = 1, its_server, its_epoch, its_log, its_pos;

/* Redis, a snapshot of it, and a write that is under way. */
byte server = 1, clock_epoch, clock_log, clock_pos;
byte cell[K], cell_rev[K], cell_epoch[K], cell_at[K], floor[K];	/* cell: 0 nothing, 1 record, 2 tombstone; floor: revision + 1 */
byte snap_epoch, snap_log, snap_pos, snap_cell[K], snap_rev[K], snap_cell_epoch[K], snap_at[K], snap_floor[K];
bit snapped;
byte late, late_rev, late_epoch, late_at;	/* late: token + 1 */

/* The link: both ends, and what is on the way to the filter. */
bit c_link, f_link;
mtype = { INVALIDATE, TRUST, GRANTED };
chan q = [3] of { mtype, byte, byte, byte, byte };	/* kind, from, to, epoch or lease, server */

/* The filter. */
byte f_log, applied, f_floor[K], f_gen;
byte l1[K], l1_rev[K], l1_at[K];
bit leased, asleep;
byte f_epoch, f_server;		/* trust, on disk */
byte ans, ans_rev, ans_at, ans_gen;	/* an answer of introspection that is under way: token + 1 */

byte faults, commits;

inline start_anew() {
	leased = 0; applied = 0; f_gen = 1 - f_gen;
	l1[0] = 0; l1[1] = 0; l1_rev[0] = 0; l1_rev[1] = 0; l1_at[0] = 0; l1_at[1] = 0;
	f_floor[0] = 0; f_floor[1] = 0
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
	:: else -> floor[1] = tomb[1] + 1
	fi
}

/* judge answers who waits for a revocation, if nobody can accept it any more. */
#define l1_safe(k)	(!unended[k] || acked >= placed[k])
#define l2_safe(k)	(synced >= placed[k] || (heard && acked >= trust_at && (withdrawn || trust_at > placed[k])))
#define confirmed(k)	(!waits[k] && placed[k] > 0 && l1_safe(k) && l2_safe(k))
#define settled(k)	(!waits[k] && (placed[k] == 0 || l1_safe(k) && l2_safe(k)))

/* accepted is a request that the filter lets through with a record. */
inline accepted(k, at) {
	assert(at >= sure_at[k])
}

inline fill(k, r, at) {
	if
	:: r >= f_floor[k] && (!l1[k] || l1_rev[k] <= r) -> l1[k] = 1; l1_rev[k] = r; l1_at[k] = at
	:: else
	fi
}

inline revoke(k) {
	d_step {
		rev++; commits++; now++;
		tomb[k] = rev; token[k] = 0; gone_at[k] = now; waits[k] = 1; asked[k] = 1; placed[k] = 0
	}
}

inline answer(k) {
	d_step { asked[k] = 0; sure_at[k] = gone_at[k] }
}

/* publish is the publisher's turn: all that waits becomes one batch. written says
 * whether Redis took it. */
inline publish(written) {
	d_step {
#ifdef BUG_ORDER	/* positions are given at the commit, and broadcast in another order */
		if
		:: waits[0] && waits[1] -> placed[0] = pos + 1; placed[1] = pos + 2; pos = pos + 2;
			if :: written -> put_tomb(0); put_tomb(1) :: else fi;
			send(INVALIDATE, applied, placed[1], 2, 0);
			send(INVALIDATE, applied, placed[0], 1, 0);
		:: else ->
#endif
		pos++;
		if :: waits[0] -> placed[0] = pos; if :: written -> put_tomb(0) :: else fi :: else fi;
		if :: waits[1] -> placed[1] = pos; if :: written -> put_tomb(1) :: else fi :: else fi;
		send(INVALIDATE, pos - 1, pos, 0, 0);
#ifdef BUG_ORDER
		fi;
#endif
		if :: waits[0] -> unended[0] = live; waits[0] = 0 :: else fi;
		if :: waits[1] -> unended[1] = live; waits[1] = 0 :: else fi;
		if
		:: written -> synced = pos; clock_epoch = epoch; clock_log = log; clock_pos = pos;
			its_epoch = epoch; its_log = log; its_pos = pos
		:: else ->
			inorder = 0;
#ifndef BUG_WITHDRAW	/* trust is not withdrawn when a revocation cannot be written */
			if
			:: !withdrawn -> pos++; trust_at = pos; withdrawn = 1; send(TRUST, pos - 1, pos, 0, 0)
			:: else
			fi
#else
			synced = pos
#endif
		fi
	}
}

/* write puts a record and the floor of its owner into Redis. */
inline write(k) {
	cell[k] = 1; cell_rev[k] = rev; cell_epoch[k] = epoch; cell_at[k] = now;
	if :: k == 1 -> floor[1] = tomb[1] + 1 :: else -> floor[0] = 1 fi
}

/* order is the keeper: it makes what Redis holds trustworthy. */
inline order() {
	d_step {
		if
		:: epoch == 0 || uncertain || server != its_server || clock_epoch != its_epoch || clock_log != its_log || clock_pos != its_pos ->
#ifdef BUG_SAME_EPOCH	/* the epoch stays, whatever happened to Redis */
			if :: epoch == 0 -> epoch = next_epoch; next_epoch++ :: else fi
#else
			epoch = next_epoch; next_epoch++
#endif
		:: else
		fi;
		uncertain = 0;
#ifndef BUG_NO_REPLAY	/* tombstones are not written again */
		if
		:: placed[0] > 0 && token[0] == 0 -> put_tomb(0)
#ifndef BUG_RECREATED	/* a token that was created again is left as it stands */
		:: placed[0] > 0 && token[0] > 0 -> write(0)
#endif
		:: else
		fi;
		if :: placed[1] > 0 -> put_tomb(1) :: else fi;
#endif
		pos++; trust_at = pos; withdrawn = 0; inorder = 1; synced = pos;
		clock_epoch = epoch; clock_log = log; clock_pos = pos;
		its_server = server; its_epoch = epoch; its_log = log; its_pos = pos;
		send(TRUST, pos - 1, pos, epoch, server)
	}
}

/* start is a new process of the control plane on the store. */
inline start() {
	d_step {
		up = 1; log++; pos = 0; acked = 0; heard = 0; trust_at = 0; synced = 0; inorder = 0; withdrawn = 1;
#ifdef BUG_KILLED	/* what a killed process had sent is taken for done or not done */
		uncertain = 0;
#else
		uncertain = !clean;
#endif
		clean = 0;
		live = 1;	/* a lease of the predecessor may live; its end is waited for */
		waits[0] = 0; waits[1] = 0; asked[0] = 0; asked[1] = 0; placed[0] = 0; placed[1] = 0;
#ifndef BUG_NO_OUTBOX	/* what was committed and not published is forgotten */
		if :: tomb[0] > 0 -> pos++; placed[0] = pos; unended[0] = 1 :: else fi;
		if :: tomb[1] > 0 -> pos++; placed[1] = pos; unended[1] = 1 :: else fi
#endif
	}
}

/* connect is Hello and Welcome, and the replay behind them. */
inline connect() {
	d_step {
		do :: (len(q) > 0) -> q?_, _, _, _, _ :: (len(q) == 0) -> break od;
		granted = 0; carried = 0;
		f_link = 1; c_link = 1;
#ifdef BUG_STORE_BACK	/* a filter keeps what it has, whoever welcomes it */
		if :: applied > pos -> applied = pos :: else fi; f_log = log;
#else
		if :: f_log != log -> start_anew(); f_log = log :: else fi;
#endif
		f_epoch = (withdrawn -> 0 : epoch); f_server = its_server;
		acked = 0;
		q!INVALIDATE, applied, pos, 0, 0
	}
}

inline receive() {
	byte from, to, what, srv;
	atomic {
		if
		:: q?INVALIDATE, from, to, what, srv ->
			if
#ifdef BUG_ORDER	/* what was applied is the newest position seen */
			:: what > 0 ->
				if :: what == 1 -> f_floor[0] = tomb[0]; l1[0] = 0 :: else -> f_floor[1] = tomb[1] fi;
				if :: to > applied -> applied = to :: else fi
			:: what == 0 ->
#else
			:: from != applied -> f_link = 0	/* a gap: the link ends, unacknowledged */
			:: else ->
#endif
				if :: placed[0] > from && placed[0] <= to && tomb[0] > f_floor[0] -> f_floor[0] = tomb[0]; if :: l1_rev[0] < tomb[0] -> l1[0] = 0 :: else fi :: else fi;
				if :: placed[1] > from && placed[1] <= to && tomb[1] > f_floor[1] -> f_floor[1] = tomb[1] :: else fi;
				if :: to > applied -> applied = to :: else fi
			fi
		:: q?TRUST, from, to, what, srv ->
			if
#ifndef BUG_ORDER
			:: from != applied -> f_link = 0
#endif
			:: else -> f_epoch = what; f_server = srv; applied = to
			fi
		:: q?GRANTED, from, to, what, srv ->
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
		from = 0; to = 0; what = 0; srv = 0
	}
}

/* believes says whether the filter may use the record of a token in Redis. */
#ifdef BUG_SERVER	/* any server with the right epoch is believed */
#define same_server	1
#else
#define same_server	(f_server == server)
#endif
#ifdef BUG_EPOCH	/* the epoch is what Redis says */
#define same_epoch(k)	(clock_epoch > 0 && cell_epoch[k] == clock_epoch)
#else
#define same_epoch(k)	(f_epoch > 0 && clock_epoch == f_epoch && cell_epoch[k] == f_epoch)
#endif
#ifdef BUG_FLOOR	/* an owner without a floor has revoked nothing */
#define floor_allows(k)	(floor[k] == 0 || cell_rev[k] >= floor[k] - 1)
#else
#define floor_allows(k)	(floor[k] > 0 && cell_rev[k] >= floor[k] - 1)
#endif
#define not_behind	(clock_log != f_log || clock_pos >= applied)
#define believes(k)	(same_server && same_epoch(k) && not_behind && cell[k] == 1 && floor_allows(k) && cell_rev[k] >= f_floor[k])
#define hits(k)		(leased && l1[k] && l1_rev[k] >= f_floor[k])

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
	/* Callers. */
	:: up && commits < COMMITS && token[0] > 0 -> revoke(0)
	:: up && commits < COMMITS && token[1] > 0 -> revoke(1)
	:: up && asked[0] && confirmed(0) -> answer(0)
	:: up && asked[1] && confirmed(1) -> answer(1)
#ifdef BUG_ALREADY_GONE	/* "already gone" is said at once */
	:: up && token[0] == 0 && sure_at[0] != gone_at[0] -> sure_at[0] = gone_at[0]
#else
	:: up && token[0] == 0 && sure_at[0] != gone_at[0] && settled(0) -> sure_at[0] = gone_at[0]
	:: up && token[1] == 0 && sure_at[1] != gone_at[1] && settled(1) -> sure_at[1] = gone_at[1]
#endif
	:: up && commits < COMMITS && token[0] == 0 && !waits[0] && tomb[0] > 0 ->	/* the same value is created again */
		d_step { rev++; commits++; now++; token[0] = rev; asked[0] = 0 }
	/* The control plane. */
	:: up && (waits[0] || waits[1]) && (len(q) < 3) ->
		if
		:: inorder -> publish(1)
		:: publish(0)
		fi
	#ifndef NO_REDIS
	:: up && !inorder && (len(q) < 3) && next_epoch < 5 -> order()
#endif
	:: up && inorder && token[0] > 0 && cell[0] != 1 -> d_step { write(0) }
	:: up && inorder && token[1] > 0 && cell[1] != 1 -> d_step { write(1) }
	:: up && inorder && late == 0 && token[0] > 0 && faults < FAULTS ->	/* a write whose end is not known */
		d_step {
			late = 1; late_rev = rev; late_epoch = epoch; late_at = now; inorder = 0; faults++;
#ifndef BUG_UNCERTAIN	/* it is taken for not done */
			uncertain = 1
#endif
		}
	:: late > 0 -> d_step { cell[0] = 1; cell_rev[0] = late_rev; cell_epoch[0] = late_epoch; cell_at[0] = late_at; if :: floor[0] == 0 -> floor[0] = 1 :: else fi; late = 0 }
	:: up && c_link && f_link && (len(q) < 3) && !live && !carried -> d_step { live = 1; granted = 1; carried = 1; q!GRANTED, 0, 0, 0, 0 }
	:: live && (!leased || asleep) -> d_step { live = 0; granted = 0; unended[0] = 0; unended[1] = 0 }	/* its own lease was shorter */
	:: up && c_link && f_link && (len(q) == 0) && (acked < applied || !heard) && f_log == log -> d_step { acked = applied; heard = 1 }
	/* The filter. */
	:: up && !f_link && !asleep && (len(q) < 3) -> connect()
	:: f_link && !asleep && (len(q) > 0) -> receive()
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
	:: !asleep && hits(0) -> accepted(0, l1_at[0])
	:: !asleep && hits(1) -> accepted(1, l1_at[1])
	:: !asleep && believes(0) -> accepted(0, cell_at[0]); fill(0, cell_rev[0], cell_at[0])
	:: !asleep && believes(1) -> accepted(1, cell_at[1]); fill(1, cell_rev[1], cell_at[1])
	/* Faults. */
	:: faults < FAULTS && f_link -> d_step { faults++; f_link = 0 }	/* the control plane hears of it later, or at once: */
	:: !f_link && c_link -> c_link = 0
	:: faults < FAULTS && up -> d_step { faults++; up = 0; c_link = 0; f_link = 0 }
	:: faults < FAULTS && up && inorder && late == 0 && !waits[0] && !waits[1] -> d_step { faults++; up = 0; clean = 1; c_link = 0; f_link = 0 }
	:: !up && log < 4 -> start()
	:: faults < FAULTS -> d_step { faults++; start_anew(); f_log = 0; f_link = 0; ans = 0; ans_rev = 0; ans_at = 0; ans_gen = 0 }	/* the filter's process */
	:: faults < FAULTS && !asleep -> d_step { faults++; asleep = 1 }
	:: asleep ->
		d_step {
			asleep = 0;
#ifndef BUG_SLEEP
			leased = 0
#endif
		}
	:: faults < FAULTS && !snapped && inorder ->
		d_step {
			snapped = 1; faults++;
			snap_epoch = clock_epoch; snap_log = clock_log; snap_pos = clock_pos;
			snap_cell[0] = cell[0]; snap_rev[0] = cell_rev[0]; snap_cell_epoch[0] = cell_epoch[0]; snap_at[0] = cell_at[0]; snap_floor[0] = floor[0];
			snap_cell[1] = cell[1]; snap_rev[1] = cell_rev[1]; snap_cell_epoch[1] = cell_epoch[1]; snap_at[1] = cell_at[1]; snap_floor[1] = floor[1]
		}
	:: snapped ->	/* Redis comes back as it was */
		d_step {
			snapped = 0; server++; inorder = 0; late = 0;
			clock_epoch = snap_epoch; clock_log = snap_log; clock_pos = snap_pos;
			cell[0] = snap_cell[0]; cell_rev[0] = snap_rev[0]; cell_epoch[0] = snap_cell_epoch[0]; cell_at[0] = snap_at[0]; floor[0] = snap_floor[0];
			cell[1] = snap_cell[1]; cell_rev[1] = snap_rev[1]; cell_epoch[1] = snap_cell_epoch[1]; cell_at[1] = snap_at[1]; floor[1] = snap_floor[1]
		}
	:: faults < FAULTS && inorder -> d_step { faults++; inorder = 0 }		/* a reset connection */
	:: faults < FAULTS && cell[0] > 0 -> d_step { faults++; cell[0] = 0 }	/* eviction */
	:: faults < FAULTS && floor[1] > 0 -> d_step { faults++; floor[1] = 0 }
	:: faults < FAULTS && !old_store && up ->
		d_step { old_store = 1; faults++; old_rev = rev; old_token[0] = token[0]; old_token[1] = token[1]; old_tomb[0] = tomb[0]; old_tomb[1] = tomb[1]; old_sure_at[0] = sure_at[0]; old_sure_at[1] = sure_at[1] }
	:: old_store && !up ->	/* the store comes back as it was: what was revoked since is revoked no more */
		d_step {
			old_store = 0; rev = old_rev; token[0] = old_token[0]; token[1] = old_token[1]; tomb[0] = old_tomb[0]; tomb[1] = old_tomb[1];
			sure_at[0] = old_sure_at[0]; sure_at[1] = old_sure_at[1]; gone_at[0] = sure_at[0]; gone_at[1] = sure_at[1];
			its_epoch = 0	/* a restored store knows that it was */
		}
	od
}
