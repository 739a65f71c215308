// Sessions by the host that they come from.
import { html } from './html.mjs';
import { useClock } from './api.mjs';
import { host, many } from './format.mjs';
import { Text } from './name.mjs';
import { Problem } from './parts.mjs';
import { useAll } from './pages.mjs';
import { Rows, useSteady } from './rows.mjs';
import { SessionRow } from './sessions.mjs';

const most = 2048; // sessions

/** ByHost lists the sessions that keep selects, those of the host that has most of them first. */
export function ByHost({ request, keep, head }) {
  const { rows: sessions = [], more, at, error } = useAll(request, 'sessions', most, 5000);
  const now = useClock();
  const hosts = new Map();
  for (const s of sessions.filter(keep)) {
    const of = host(s.client?.address);
    hosts.set(of, [...(hosts.get(of) ?? []), s]);
  }
  const items = [...hosts].sort((a, b) => b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1)).flatMap(([of, list]) => [
    { key: `host ${of}`, group: of, list }, ...list.map((s) => ({ key: `${s.path} ${s.id}`, s }))]);
  const { items: shown, steady } = useSteady(items, JSON.stringify(request));
  const groups = shown.flatMap((item, i) => (item.list ? [i] : []));
  const item = (i) => {
    const { key, group, list, s } = shown[i];
    if (!list) return { key, kind: s.attached ? '' : 'look lost', content: html`<${SessionRow} s=${s} now=${now} answeredAgo=${Date.now() - at}/>` };
    const locks = list.reduce((n, one) => n + (one.owned?.length ?? 0), 0);
    return { key, content: html`${group ? html`<${Text} of=${group}/>` : 'No client'}<small>
      ${many(list.length, 'session')}, ${locks ? `with ${many(locks, 'lock')}` : 'without locks'}</small>` };
  };
  return html`<${Problem} error=${error}/>${more && html`<p class="note">The first ${sessions.length} sessions are shown.</p>`}
    <div class="sessions"><${Rows} label="Sessions by host" head=${head} count=${shown.length} groups=${groups} item=${item} steady=${steady}/></div>`;
}
