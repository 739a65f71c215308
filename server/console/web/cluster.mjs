// Cluster: the servers, problems first, and the last hour.
import { html, useState } from './html.mjs';
import { useClock, useSession } from './api.mjs';
import { useLive } from './polls.mjs';
import { Text } from './name.mjs';
import { ago, big, bytes, capital, count, inWords, many, millis, small } from './format.mjs';
import { Asking, Facts, Problem } from './parts.mjs';
import { Heading } from './frame.mjs';
import { HandOver } from './acts.mjs';
import { Chart, merge } from './charts.mjs';

const nameOf = (m) => m.name || m.id;
const roles = { ROLE_LEADER: 'leads', ROLE_VOTER: 'follows', ROLE_LEARNER: 'learns, without a vote' };
const largestSkew = 250; // milliseconds between clocks that need no look

const isAway = (status, m) => status.leaderAnswered && !m.active && m.id !== status.leader;

/** problemsOf returns the sentences about a cluster that go first. */
function problemsOf(status, servers) {
  const found = new Set(status.issues ?? []);
  if (!status.leader) found.add('No server leads: nothing can be changed until a majority of the servers is there.');
  for (const s of [{ name: status.serverName, status }, ...servers]) {
    if (s.unknown) found.add(capital(s.unknown));
    if (s.status?.diverged) found.add(s.status.diverged);
    if (s.status?.diskFull) found.add(`The disk of server ${s.name} is full down to its reserve: it takes no more commands.`);
    for (const issue of s.status?.issues ?? []) found.add(issue);
    const skew = Math.abs(small(s.clockMillis ?? '0'));
    if (skew > largestSkew) found.add(`The clock of server ${s.name} differs by ${ago(skew)}.`);
  }
  for (const m of status.members ?? []) {
    if (isAway(status, m)) found.add(`The leader does not hear server ${nameOf(m)}.`);
  }
  return [...found];
}

/** Ring draws the servers on a circle, the leader on top. */
function Ring({ status }) {
  const members = status.members ?? [];
  const first = Math.max(0, members.findIndex((m) => m.id === status.leader));
  const around = [...members.slice(first), ...members.slice(0, first)];
  const place = (i) => {
    const angle = (2 * Math.PI * i) / around.length - Math.PI / 2;
    return [110 + 74 * Math.cos(angle), 104 + 74 * Math.sin(angle)];
  };
  const [lx, ly] = place(0);
  const label = `${members.length} servers, ${status.leader ? `${nameOf(around[0])} leads` : 'without a leader'}`;
  return html`<svg class="ring" viewBox="0 0 220 204" role="img" aria-label=${label}>
    <circle class="g-grid" cx="110" cy="104" r="74" fill="none"/>
    ${status.leader && around.map((m, i) => i > 0 && html`<line class=${isAway(status, m) ? 'r-away' : 'r-link'} x1=${lx} y1=${ly}
      x2=${place(i)[0]} y2=${place(i)[1]}/>`)}
    ${around.map((m, i) => {
    const [x, y] = place(i);
    const kind = m.id === status.leader ? 'r-leads' : isAway(status, m) ? 'r-gone' : 'r-follows';
    return html`<g class=${kind}><circle cx=${x} cy=${y} r="22"/><text x=${x} y=${y + 4} text-anchor="middle">
      ${nameOf(m).slice(0, 5)}</text></g>`;
  })}</svg>`;
}

/** Server is a row: what the leader knows of a member, and what the server reports of itself. */
function Server({ m, status, server, act, now }) {
  const leads = m.id === status.leader;
  const away = isAway(status, m);
  const own = server?.status ?? (m.id === status.serverId ? status : undefined);
  const lag = !status.leaderAnswered ? 'unknown' : leads || big(m.lag) === 0n ? 'has everything' : `${many(m.lag, 'entry', 'entries')} behind`;
  const since = (millis) => (millis ? `${ago(now - small(millis))} ago` : '');
  const ahead = small(server?.clockMillis ?? '0');
  const skew = ahead ? `${ago(Math.abs(ahead))} ${ahead > 0 ? 'ahead' : 'behind'}` : '';
  return html`<tr><td class="w"><span class=${`chip ${leads ? '' : away ? 'bad' : 'none'}`}><${Text} of=${nameOf(m)}/>
    </span></td>
    <td>${away ? html`<span class="lost">is away</span>` : roles[m.role] ?? 'is no member'}</td><td>${lag}</td>
    <td class="mono"><${Text} of=${(m.clientAddress || m.peerAddress || '').replace(/^plain=/, '')}/></td>
    <td>${own && big(own.freeBytes) > 0n ? `${bytes(own.freeBytes)} free` : server?.unknown && 'does not answer'}</td>
    <td data-label="checkpoint">${since(server?.checkpointMillis)}</td><td data-label="version">${server?.version}</td>
    <td data-label="up for">${since(server?.startedMillis).replace(' ago', '')}</td><td data-label="clock">${skew}</td>
    <td class="num">${act && !leads && !away && m.role === 'ROLE_VOTER' && html`<button class="btn" onClick=${() => act(m)}>Hand over…</button>`}</td></tr>`;
}

const rate = (v) => (v >= 100 ? Math.round(v).toLocaleString('en') : v.toFixed(1));
const [add, greatest] = [(a, b) => a + b, (a, b) => Math.max(a, b)];

function Charts({ servers, now }) {
  const of = (title, valueOf, join, format) => html`<${Chart} title=${title} values=${merge(servers, valueOf, join)} format=${format} now=${now}/>`;
  return html`<div class="charts">
    ${of('Grants per second', (s) => s.grantsPerSecond ?? 0, add, rate)}
    ${of('Waits, 99th percentile', (s) => s.waitP99Millis ?? 0, greatest, millis)}
    ${of('Appends to the log, 99th percentile', (s) => s.appendP99Millis ?? 0, greatest, millis)}
    ${of('Sessions', (s) => small(s.sessions), greatest, (v) => v.toLocaleString('en'))}</div>
    <p class="note">The last hour, as far as the servers have run: they keep the values in memory.</p>`;
}

export function Cluster() {
  const me = useSession();
  const administers = me.rights?.includes('administrator');
  const { answer: status, error } = useLive('Cluster/Status', {}, 1000);
  const { answer: all } = useLive(administers && 'Console/Servers', {}, 10000);
  const [target, setTarget] = useState();
  const now = useClock();
  if (!status) return html`<${Heading} title="Cluster"/><${Asking} error=${error}/>`;
  const members = status.members ?? [];
  const servers = all?.servers ?? [];
  const leader = members.find((m) => m.id === status.leader);
  const problems = problemsOf(status, servers);
  const act = administers && me.rights.includes('act') && setTarget;
  const columns = ['Server', 'Role', 'Log', 'Address', 'Disk', 'Checkpoint', 'Version', 'Up for', 'Clock'];
  const well = problems.length === 0 ? 'Everything is well.' : `${capital(inWords(problems.length))} ${problems.length === 1 ? 'thing needs' : 'things need'} a look.`;
  return html`<${Heading} title="Cluster"/>
    <p class="lede"><b>${well}</b> ${members.length > 1 ? html`${capital(inWords(members.length))} servers${leader && html`; <b><${Text} of=${nameOf(leader)}/></b>${' '}
      leads`} in term ${count(status.term)}.` : 'One server, without others to take over from it.'}</p>
    <${Problem} error=${error}/>${problems.map((text) => html`<div class="problem"><${Text} of=${text}/></div>`)}
    <section class="card wide cluster"><h2>Servers</h2><div class="beside">
      ${members.length > 1 && html`<${Ring} status=${status}/>`}
      <div class="scroll" tabindex="0" role="region" aria-label="Servers"><table class="past"><thead><tr>
        ${columns.map((c) => html`<th>${c}</th>`)}<th><span class="vh">Act</span></th></tr></thead>
        <tbody>${members.map((m) => html`<${Server} key=${m.id} m=${m} status=${status} server=${servers.find((s) => s.id === m.id)} act=${act} now=${now}/>`)}</tbody></table></div></div></section>
    ${servers.length > 0 && html`<${Charts} servers=${servers} now=${now}/>`}
    <section class="card wide"><h2>Server ${status.serverName || status.serverId}</h2><${Facts} rows=${[
    ['Committed', `entry ${count(status.commit)}`],
    ['Applied', `entry ${count(status.applied)}${status.caughtUp ? '' : ', still catching up'}`],
    ['Disk', big(status.freeBytes) > 0n && `${bytes(status.freeBytes)} free, ${bytes(status.reserveBytes)} of it in reserve`],
    ['Cluster', status.cluster && html`<span class="mono">${status.cluster}</span>`],
  ]}/></section>
    ${target && html`<${HandOver} status=${status} member=${target} done=${() => setTarget()}/>`}`;
}
