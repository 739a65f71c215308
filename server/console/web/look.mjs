// The rule by which a lock needs a look. Age alone is no reason: the leader of an election holds its lock for months.
import { ago, big, forever, limit, roughly, small } from './format.mjs';

const usualTimes = 5;
const leastHeldMillis = 60_000;
const shareOfTimeout = 2 / 3;

/** waits of a semaphore's waiters, in milliseconds, the oldest first. */
export const waitsOf = (semaphore, now) => (semaphore.waiters ?? []).filter((w) => w.sinceMillis).map((w) => now - small(w.sinceMillis))
  .sort((a, b) => b - a);

export function heldFor(semaphore, now) {
  const since = semaphore.owners?.[0]?.sinceMillis;
  return since ? now - small(since) : undefined;
}

/**
 * lookAt returns why a semaphore needs a look: kind "lost" or "late", a note for its row, and the end of a sentence about it.
 * holder is the session of its first owner, usual the median time of its last holders in milliseconds; both may be unknown.
 */
export function lookAt(semaphore, holder, usual, now, answeredAgo = 0) {
  if (holder && !holder.attached) {
    const left = small(holder.leftMillis) - answeredAgo;
    const silent = holder.detachedMillis ? `silent for ${ago(now - small(holder.detachedMillis))}, ` : 'silent, ';
    return { kind: 'lost', note: `${silent}ends in ${ago(left)}`, phrase: 'has a holder that has lost its connection' };
  }
  const held = heldFor(semaphore, now);
  if (usual && held > leastHeldMillis && held > usualTimes * usual) {
    return { kind: 'late', held: true, note: `${Math.floor(held / usual)} times its usual ${ago(usual)}`,
      phrase: `has been held for ${roughly(held)}` };
  }
  for (const w of semaphore.waiters ?? []) {
    const timeout = big(w.timeoutMillis);
    const wait = now - small(w.sinceMillis);
    if (!w.sinceMillis || timeout === 0n || timeout === forever || wait < shareOfTimeout * small(timeout)) continue;
    const left = small(timeout) - wait;
    return { kind: 'late', wait: true, note: `a wait of ${limit(small(timeout))} ends in ${ago(left)}`,
      phrase: `is awaited by a session that gives up in ${roughly(left)}` };
  }
  return undefined;
}
