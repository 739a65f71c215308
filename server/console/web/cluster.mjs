// Cluster: the servers, what is wrong with them, and the last hour.
import { html, useState } from './html.mjs';
import { useClock, useLive, useSession } from './api.mjs';
import { Text } from './name.mjs';
import { big, bytes, capital, count, inWords, many } from './format.mjs';
import { Problem } from './parts.mjs';
import { Heading } from './frame.mjs';
import { HandOver } from './acts.mjs';

const nameOf = (m) => m.name || m.id;
const roles = { ROLE_LEADER: 'leads', ROLE_VOTER: 'follows', ROLE_LEARNER: 'learns, without a vote' };

/** problemsOf are the sentences about a cluster that go first. */
function problemsOf(status) {
  const found = [...(status.issues ?? [])];
  if (!status.leader) found.unshift('No server leads: nothing can be changed or read until a majority is there.');
  if (status.diverged) found.unshift(status.diverged);
  if (status.diskFull) found.push(`The disk of server ${status.serverName} is full down to its reserve: it takes no more commands.`);
  for (const m of status.members ?? []) {
    if (status.leaderAnswered && !m.active && m.id !== status.leader) found.push(`The leader does not hear server ${nameOf(m)}.`);
  }
  return found;
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
  const away = (m) => status.leaderAnswered && !m.active && m.id !== status.leader;
  const [lx, ly] = place(0);
  return html`<svg class="ring" viewBox="0 0 220 212" role="img" aria-label=${`${members.length} servers, ${status.leader ? `${nameOf(around[0])} leads` : 'none leads'}`}>
    <circle class="g-grid" cx="110" cy="104" r="74" fill="none"/>
    ${status.leader && around.map((m, i) => i > 0 && html`<line class=${away(m) ? 'r-away' : 'r-link'} x1=${lx} y1=${ly} x2=${place(i)[0]} y2=${place(i)[1]}/>`)}
    ${around.map((m, i) => {
    const [x, y] = place(i);
    const kind = m.id === status.leader ? 'r-leads' : away(m) ? 'r-gone' : 'r-follows';
    return html`<g class=${kind}><circle cx=${x} cy=${y} r="22"/><text x=${x} y=${y + 4} text-anchor="middle">${nameOf(m).slice(0, 5)}</text></g>`;
  })}</svg>`;
}

function Server({ m, status, act }) {
  const leads = m.id === status.leader;
  const asked = m.id === status.serverId;
  const away = status.leaderAnswered && !m.active && !leads;
  const lag = !status.leaderAnswered ? 'unknown' : leads || big(m.lag) === 0n ? 'has everything' : `${many(m.lag, 'entry', 'entries')} behind`;
  return html`<tr><td class="w"><span class=${`chip ${leads ? '' : away ? 'bad' : 'none'}`}><${Text} of=${nameOf(m)}/></span></td>
    <td>${away ? html`<span class="lost">is away</span>` : roles[m.role] ?? 'is no member'}</td><td>${lag}</td>
    <td class="mono"><${Text} of=${m.clientAddress || m.peerAddress || ''}/></td>
    <td>${asked && big(status.freeBytes) > 0n ? `${bytes(status.freeBytes)} free` : ''}</td>
    <td class="num">${act && !leads && !away && m.role === 'ROLE_VOTER' && html`<button class="btn" onClick=${() => act(m)}>Hand over…</button>`}</td></tr>`;
}

export function Cluster() {
  const me = useSession();
  const { answer: status, error } = useLive('Cluster/Status', {}, 1000);
  const [target, setTarget] = useState();
  useClock();
  if (!status) return html`<${Heading} title="Cluster"/><${Problem} error=${error}/>${!error && html`<p class="lede">Asking the server.</p>`}`;
  const members = status.members ?? [];
  const leader = members.find((m) => m.id === status.leader);
  const problems = problemsOf(status);
  const act = me.rights?.includes('act') && me.rights.includes('administrator') && setTarget;
  return html`<${Heading} title="Cluster"/>
    <p class="lede">${problems.length ? html`<b>${capital(inWords(problems.length))} ${problems.length === 1 ? 'thing needs' : 'things need'} a look.</b>`
    : html`<b>Everything is well.</b>`} ${members.length > 1 ? html`${capital(many(members.length, 'server'))}${leader && html`; <b><${Text} of=${nameOf(leader)}/></b> leads`} in term ${count(status.term)}.` : 'One server, which has no others to fail over to.'}</p>
    <${Problem} error=${error}/>
    ${problems.map((text) => html`<div class="problem"><${Text} of=${text}/></div>`)}
    <section class="card wide cluster"><h2>Servers <small>as server ${status.serverName || status.serverId} sees them</small></h2>
      <div class="beside">${members.length > 1 && html`<${Ring} status=${status}/>`}<table class="past"><thead><tr><th>Server</th><th>Role</th><th>Log</th><th>Address</th><th>Disk</th><th></th></tr></thead>
        <tbody>${members.map((m) => html`<${Server} key=${m.id} m=${m} status=${status} act=${act}/>`)}</tbody></table></div></section>
    <section class="card wide"><h2>Log</h2><dl class="facts"><dt>Committed</dt><dd>entry ${count(status.commit)}</dd><dt>Applied here</dt>
      <dd>entry ${count(status.applied)}${!status.caughtUp && ', still catching up'}</dd><dt>Disk</dt>
      <dd>${bytes(status.freeBytes)} free${big(status.reserveBytes) > 0n && `, ${bytes(status.reserveBytes)} of it in reserve`}</dd>
      <dt>Cluster</dt><dd class="mono">${status.cluster}</dd></dl></section>
    ${target && html`<${HandOver} status=${status} member=${target} done=${() => setTarget()}/>`}`;
}
