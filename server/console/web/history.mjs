// The holders of a lock before now, and how each hold ended.
import { html, useEffect, useState } from './html.mjs';
import { call, currentSession, onSession } from './api.mjs';
import { useLive } from './polls.mjs';
import { sessionURL } from './route.mjs';
import { base64Of, bytesOfText, plain, Text } from './name.mjs';
import { ago, at, small } from './format.mjs';
import { silence } from './events.mjs';

/** usePast returns the last holds of a semaphore, the newest first, each with the event of its end; undefined while unknown. */
export function usePast(path, name) {
  const { answer, at: since } = useLive('Inspect/Events', { path, semaphore: base64Of(name), limit: 100 }, 3000);
  const ends = new Map();
  for (const e of answer?.events ?? []) if (e.kind.startsWith('SESSION_')) ends.set(e.session, e);
  const holds = answer && (answer.holds ?? []).map((h) => ({ ...h, end: ends.get(h.session) }));
  return { holds, since };
}

/** median of the times of some holds, undefined of fewer than three. */
export function usualOf(holds) {
  const times = (holds ?? []).filter((h) => h.grantedMillis).map((h) => small(h.endedMillis) - small(h.grantedMillis)).sort((a, b) => a - b);
  return times.length < 5 ? undefined : times[times.length >> 1];
}

const known = new Map(); // descriptions of sessions, which do not change
const mostKnown = 2000;
onSession(() => { if (!currentSession()) known.clear(); });

/** useNames finds the descriptions of sessions that are still there. */
export function useNames(path, ids) {
  const [, changed] = useState(0);
  const missing = ids.filter((id) => !known.has(`${path} ${id}`));
  useEffect(() => {
    let stopped = false;
    (async () => {
      for (const id of missing) {
        const found = await call('Inspect/List', { kind: 'SESSIONS', path, session: id }).catch(() => undefined);
        if (known.size > mostKnown) known.clear();
        known.set(`${path} ${id}`, found?.sessions?.[0]?.description);
        if (stopped) return;
      }
      if (missing.length) changed((n) => n + 1);
    })();
    return () => { stopped = true; };
  }, [missing.join()]);
  return (id) => known.get(`${path} ${id}`);
}

export const lost = (hold) => ['SESSION_EXPIRED', 'SESSION_ENDED'].includes(hold.cause);

/** End describes how a hold ended. */
function End({ hold: { cause, end } }) {
  if (cause === 'SESSION_EXPIRED') return html`${end ? silence(end) : 'expired'}`;
  if (cause === 'SESSION_ENDED') return html`session ended${end?.user && html` by <${Text} of=${end.user}/>`}${end?.reason && html`: “<${Text} of=${end.reason}/>”`}`;
  if (cause === 'SESSION_STOPPED') return 'session stopped by its client';
  return cause === 'SEMAPHORE_DELETED' ? 'semaphore deleted' : 'released';
}

/** Past is the table of the holders before; owner is the link of the present one. */
export function Past({ path, past, owner }) {
  const { holds, since } = past;
  const nameOf = useNames(path, [...new Set([...(holds ?? []).map((h) => h.session), ...(owner ? [owner.session] : [])])]);
  const name = (id, end) => end?.description || nameOf(id) || `session ${id}`;
  if (!holds || holds.length === 0) return null;
  const next = (i) => {
    const after = i > 0 ? { session: holds[i - 1].session, from: holds[i - 1].grantedMillis, end: holds[i - 1].end }
      : owner && { session: owner.session, from: owner.sinceMillis };
    if (!after?.from) return '';
    const gap = small(after.from) - small(holds[i].endedMillis);
    return html`<${Text} of=${name(after.session, after.end)}/>${gap >= 1000 && `, ${ago(gap)} later`}`;
  };
  return html`<section class="card wide">
    <h2>Previous holders <small>the last ${holds.length}, as far as this server has seen them</small></h2>
    <table class="past"><thead><tr><th>Holder</th><th>From</th><th class="num">Held for</th><th>How it ended</th>
      <th>Then</th></tr></thead><tbody>
    ${holds.map((h, i) => html`<tr key=${h.orderId}><td class="w"><a href=${sessionURL(path, h.session)}>
      <${Text} of=${name(h.session, h.end)}/></a></td>
      <td class="at">${h.grantedMillis ? at(small(h.grantedMillis)) : 'unknown'}</td>
      <td class="num">${h.grantedMillis && ago(small(h.endedMillis) - small(h.grantedMillis))}</td>
      <td class=${`end ${lost(h) ? 'bad' : ''}`}><${End} hold=${h}/></td><td class="next soft">${next(i)}</td></tr>`)}
        </tbody></table></section>`;
}

/** lanesOf makes the holds for Lanes. */
export const lanesOf = (holds, nameOf) => (holds ?? []).filter((h) => h.grantedMillis).map((h) => ({
  who: plain(bytesOfText(h.end?.description || nameOf(h.session) || `session ${h.session}`)),
  from: small(h.grantedMillis), to: small(h.endedMillis), how: lost(h) ? 'lost' : 'released',
}));
