/* Two control planes that write one Redis: a copy of a state directory that was
 * started beside its original, where the lock cannot see it. Each is the truth for
 * its own filters; the question is what Redis does between them.
 *
 * A revokes an owner, and has revoked it once before, when the copy was taken (CLEAN)
 * or not. A filter of A without a link reads Redis with the trust that A has told it.
 * B writes what its store says. Both follow the rules of freshness.pml: records and
 * floors have an epoch, the clock is compared when it is read and when it is written.
 *
 * It holds for a copy of a process that ran, for that draws an epoch of its own
 * before it writes. It does not for a copy that was taken after a clean end (CLEAN):
 * both may go on with the same epoch, and the one writes the floors of its time over
 * those of the other. It does if each has a Redis, or a database of one, of its own
 * (APART).
 */
#define A 0
#define B 1

byte epoch[2], next_epoch = 2;
byte its_epoch[2], its_log[2];		/* the clock as each has read or written it */
bit inorder[2], decided[2], doubt[2], started[2];
byte clock_epoch[2], clock_log[2];	/* by Redis */
byte record_epoch[2], record_rev[2], floor[2], floor_epoch[2];
byte rev[2];			/* both have the revocation of revision 2 */
bit revoked, synced, sure;
byte f_epoch;
byte turns;
hidden byte as_left;

#ifdef APART
#define r(p)	p
#else
#define r(p)	0
#endif
#ifndef TURNS
#define TURNS 9
#endif

inline set_clock(p, l) {
	as_left = (clock_epoch[r(p)] == its_epoch[p] && clock_log[r(p)] == its_log[p]);
	clock_epoch[r(p)] = epoch[p]; clock_log[r(p)] = l;
	if
	:: as_left -> its_epoch[p] = epoch[p]; its_log[p] = l
	:: else -> doubt[p] = 1; inorder[p] = 0; decided[p] = 0
	fi
}

/* The former process, log 3, has left epoch 1 in the store and in Redis. */
inline decide(p) {
	d_step {
		if
		:: doubt[p] || clock_epoch[r(p)] != its_epoch[p] || clock_log[r(p)] != its_log[p] -> epoch[p] = next_epoch; next_epoch++
		:: else
		fi;
		its_epoch[p] = clock_epoch[r(p)]; its_log[p] = clock_log[r(p)];
		doubt[p] = 0; decided[p] = 1
	}
}

/* write is a replay, or a record with its floor: floors first. */
inline write_floor(p) {
	d_step { floor[r(p)] = rev[p] + 1; floor_epoch[r(p)] = epoch[p] }
}

#define believes	(f_epoch > 0 && clock_epoch[0] == f_epoch && record_epoch[0] == f_epoch && floor[0] > 0 && floor_epoch[0] == f_epoch && record_rev[0] >= floor[0] - 1)

active proctype world() {
	byte p;
	d_step {
		rev[0] = 2; rev[1] = 2; epoch[0] = 1; epoch[1] = 1;
		its_epoch[0] = 1; its_epoch[1] = 1; its_log[0] = 3; its_log[1] = 3;
		clock_epoch[0] = 1; clock_epoch[1] = 1; clock_log[0] = 3; clock_log[1] = 3;
		record_epoch[0] = 1; record_rev[0] = 2; floor[0] = 3; floor_epoch[0] = 1; f_epoch = 1;
#ifndef CLEAN
		doubt[B] = 1
#endif
	}
	do
	:: atomic {
	if
	:: turns < TURNS ->
		turns++;
		if :: p = A :: p = B fi;
		if
		:: !decided[p] -> decide(p)
		:: decided[p] && !inorder[p] -> write_floor(p)		/* the replay */
		:: decided[p] && !inorder[p] -> d_step { inorder[p] = 1; set_clock(p, p + 1); if :: p == A && inorder[A] -> synced = revoked :: else fi }
		:: inorder[p] -> d_step { record_epoch[r(p)] = epoch[p]; record_rev[r(p)] = rev[p]; floor[r(p)] = rev[p] + 1; floor_epoch[r(p)] = epoch[p] }
		:: inorder[p] -> write_floor(p)				/* of another token of the owner */
		:: inorder[p] -> d_step { set_clock(p, p + 1) }		/* something else is published */
		:: inorder[p] && (clock_epoch[r(p)] != its_epoch[p] || clock_log[r(p)] != its_log[p]) -> d_step { inorder[p] = 0; decided[p] = 0 }
		fi;
		p = 0
	:: inorder[A] && f_epoch != epoch[A] -> f_epoch = epoch[A]	/* A's trust, before the link breaks again */
	:: inorder[A] && !revoked ->	/* A revokes, and Redis is to confirm it: the filter has no link */
		d_step {
			revoked = 1; rev[A] = 3; floor[r(A)] = 4; floor_epoch[r(A)] = epoch[A];
			set_clock(A, 1); synced = inorder[A]
		}
	fi;
	d_step {
		if :: revoked && synced -> sure = 1 :: else fi;
		assert(!sure || !believes || record_rev[0] >= 3)
	}
	}
	od
}
