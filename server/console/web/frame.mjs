// What stands around every view: the rail, or the tabs on a narrow screen, and whether the server answers.
import { html, useEffect, useRef } from './html.mjs';
import { connection, signOut, useClock, useSession } from './api.mjs';
import { useLive, refresh } from './polls.mjs';
import { Icon } from './parts.mjs';
import { Text } from './name.mjs';
import { at, ago, count, big } from './format.mjs';

const views = [['locks', 'Locks'], ['sessions', 'Sessions'], ['timeline', 'Timeline'], ['cluster', 'Cluster'],
  ['slow', 'Slow requests'], ['config', 'Configuration'], ['limiters', 'Rate limiters'], ['rights', 'Rights']];
const onPhones = 4; // tabs; the others are behind one more
const parents = { __proto__: null, lock: 'locks', session: 'sessions', limiter: 'limiters' };
/** beside has the views that show one thing beside the list that it is chosen from. */
export const beside = new Set(['config', 'rights']);

const all = () => [...views, ...(connection.standIn ? [['standin', 'Stand-in']] : [])];

function Links({ view, counts }) {
  const here = parents[view] ?? view;
  return all().map(([key, title], i) => html`<a href=${`#/${key}`} class=${i < onPhones ? '' : 'rest'} aria-current=${key === here ? 'page' : undefined}>
    <${Icon} name=${key}/>${title}${counts?.[key] !== undefined && html`<b>${count(counts[key])}</b>`}</a>`);
}

/** More lists the views that have no tab on a phone. */
export const More = () => html`<${Heading} title="More"/><ul class="card wide menu">${all().slice(onPhones).map(([key, title]) => html`<li>
  <a href=${`#/${key}`}><${Icon} name=${key}/>${title}</a></li>`)}</ul>`;

export const Mark = () => html`<svg class="mark" viewBox="0 0 20 20" aria-hidden="true">
  <path d="M16.6 6.2A8 8 0 1 0 16.6 13.8"/><circle cx="10" cy="10" r="2.6"/></svg>`;

/** Servers is a bar for each server, the leader's in full colour. */
function Servers({ status }) {
  const members = status?.members ?? [];
  if (members.length < 2) return null;
  const nameOf = (m) => m.name || m.id;
  return html`<a class="servers" href="#/cluster"><span class="vh">Servers: </span>${members.map((m) => {
    const leads = m.id === status.leader;
    const away = status.leaderAnswered && !m.active && !leads;
    return html`<span class=${`server ${leads ? 'leads' : ''} ${away ? 'away' : ''}`}><i></i><span>
      <${Text} of=${nameOf(m)}/>${leads ? ' leads' : away ? ' is away' : ''}</span></span>`;
  })}</a>`;
}

function Live() {
  useClock(500);
  if (!connection.lostSince) {
    const since = Date.now() - connection.at;
    return html`<div class="live">${connection.at ? `Live, ${ago(since < 100 ? 100 : since)} ago` : 'Asking'}</div>`;
  }
  return html`<div class="live off">Offline since ${at(connection.lostSince)}</div>`;
}

/** Offline warns, above the view, that the view is old. */
function Offline() {
  useClock(1000);
  if (!connection.lostSince) return null;
  const next = Math.max(0, Math.ceil((connection.next - Date.now()) / 1000));
  return html`<div class="problem off" role="status"><b>This server has not answered since ${at(connection.lostSince)}.</b>
    ${connection.at ? ' The page shows the state as of then.' : ''} It asks again ${next ? `in ${next} s` : 'now'}; if the server is gone
    for good, open the console of another one. <button class="btn" onClick=${refresh}>Ask now</button></div>`;
}

const rightsText = (session) => (session.rights?.includes('act') ? '' : ', read only');

export function Frame({ route, children }) {
  const session = useSession();
  const { answer: status } = useLive('Cluster/Status', {}, 2000);
  const { answer: held } = useLive('Inspect/List', { kind: 'SEMAPHORES', order: 'OLDEST_WAIT', pageSize: 1 }, 3000);
  const nodes = useNodes();
  const main = useRef();
  const place = `${route.view}${route.path}/${route.last.join()}`;
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else if (!beside.has(route.view) || innerWidth <= 860) {
      scrollTo(0, 0);
      main.current.querySelector('h1')?.focus({ preventScroll: true });
    }
  }, [place]);
  const counts = { locks: held?.total, sessions: nodes?.sessions };
  return html`<div class="frame">
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); main.current.focus(); }}>Skip to the content</a>
    <header class="rail"><a class="brand" href="#/locks"><${Mark}/>coordd</a>
      <nav aria-label="Views"><${Links} view=${route.view} counts=${counts}/></nav>
      <${Servers} status=${status}/>
      <div class="foot"><${Live}/><div class="user">
        ${session.user ? html`<${Text} of=${session.user}/>` : 'administrator'}${rightsText(session)}</div>
        <div><button class="plain" onClick=${signOut}>Sign out</button></div></div></header>
    <main ref=${main} id="main" tabindex="-1"><${Offline}/>${children}</main>
    <nav class="tabs" aria-label="Views on a narrow screen"><${Links} view=${route.view}/>
      <a href="#/more" class="more" aria-current=${all().findIndex(([key]) => key === (parents[route.view] ?? route.view)) < onPhones && route.view !== 'more' ? undefined : 'page'}>
        <${Icon} name="more"/>More</a></nav></div>`;
}

/** useNodes sums the sessions and semaphores of all nodes; undefined while they are unknown, or too many to ask for. */
export function useNodes() {
  const { answer } = useLive('Inspect/List', { kind: 'NODES' }, 5000);
  if (!answer || answer.nextPageToken) return undefined;
  let [sessions, semaphores] = [0n, 0n];
  for (const node of answer.nodes ?? []) {
    sessions += big(node.sessions);
    semaphores += big(node.semaphores);
  }
  return { sessions, semaphores, nodes: answer.nodes?.length ?? 0 };
}

/** Heading is the title of a view, which gets the focus when the view changes. */
export function Heading({ title, children }) {
  const heading = useRef();
  useEffect(() => { document.title = `${title} · coordd`; }, [title]);
  useEffect(() => { // a view that has its answer now may have replaced the heading that had the focus
    if (document.activeElement === document.body) heading.current.focus({ preventScroll: true });
  }, []);
  return html`<h1 ref=${heading} tabindex="-1">${children ?? title}</h1>`;
}
