// Slow requests: those that took longest, and where each spent its time.
import { html, useRef } from './html.mjs';
import { useSession } from './api.mjs';
import { useLive } from './polls.mjs';
import { lockURL, sessionURL, setSettings } from './route.mjs';
import { bytesOf, Name, Text } from './name.mjs';
import { at, many, millis, small } from './format.mjs';
import { Asking, Choice, Empty, Moved, Problem } from './parts.mjs';
import { useSteady } from './rows.mjs';
import { Heading } from './frame.mjs';

const most = 100; // requests
const periods = { __proto__: null, minute: [60_000, 'in the last minute'], ten: [600_000, 'in the last ten minutes'],
  hour: [3600_000, 'in the last hour'] };

const order = ['room', 'turn', 'encode', 'log', 'write', 'sync', 'commit', 'leader', 'apply', 'answer', 'send'];
const legend = { wait: 'waiting: room, turn', other: 'server: encode, log, apply, answer',
  data: 'disk: write', sync: 'disk: sync', acts: 'other servers: commit, leader', send: 'client: send' };
const colour = (stage) => Object.keys(legend).find((key) => legend[key].split(/\W+/).includes(stage));

/** Stages is a bar of the time of a request. */
function Stages({ of = [] }) {
  const text = ({ stage, micros }) => `${stage} ${millis(micros / 1000)}`;
  const parts = of.toSorted((a, b) => order.indexOf(a.stage) - order.indexOf(b.stage));
  return html`<div class="stages" role="img" aria-label=${parts.map(text).join(', ')}>${parts.map((p) => html`<i class=${`h-${colour(p.stage)}`}
    style=${{ flexGrow: `${p.micros}` }} title=${text(p)}></i>`)}</div>`;
}

function Request({ q }) {
  const name = html`<${Name} bytes=${bytesOf(q.semaphore)}/>`;
  return html`<tr><td><div class="w">${q.path ? html`<a href=${lockURL(q.path, bytesOf(q.semaphore))}>${name}</a>` : name}</div>
      <div class="sub">${q.kind}, ${q.path ? html`<span class="mono"><${Text} of=${q.path}/></span>, <a href=${sessionURL(q.path, q.session)}>session ${q.session}</a>`
    : `session ${q.session} of a dropped node`}</div></td>
    <td class="at">${at(small(q.endedMillis))}<div class="sub">server <${Text} of=${q.server}/></div></td>
    <td class="num"><b>${millis(q.totalMicros / 1000)}</b></td><td class="end"><${Stages} of=${q.stages}/>${q.cause}</td></tr>`;
}

export function Slow({ route: { settings } }) {
  const administers = useSession().rights?.includes('administrator');
  const period = settings.over in periods ? settings.over : 'hour';
  const [span, words] = periods[period];
  const server = settings.server ?? '';
  const { answer: status } = useLive('Cluster/Status', {}, 2000);
  const { answer: fresh, error } = useLive(administers && 'Inspect/Slow', { withinMillis: `${span}`, limit: most, server }, 2000);
  const scope = `${period} ${server}`;
  const kept = useRef({ scope, answer: fresh });
  if (fresh || kept.current.scope !== scope) kept.current = { scope, answer: fresh };
  const { answer } = kept.current;
  const calls = answer?.calls ?? [];
  const { items, changes, resort, steady } = useSteady(calls.map((q) => (
    { key: `${q.server} ${q.endedMillis} ${q.session} ${q.totalMicros} ${q.semaphore}`, q })), scope);
  const heading = html`<${Heading} title="Slow requests"/>`;
  if (!administers) {
    return html`${heading}<${Empty} title="Slow requests are for administrators."><p>They name the locks of all users. Sign in by the link that this prints on
      the server’s machine:</p><pre class="data">coordd console</pre></${Empty}>`;
  }
  const names = (status?.members ?? []).map((m) => m.name || m.id).sort();
  const all = period === 'hour' && !server;
  return html`${heading}${calls[0] && html`<p class="lede"><b>The slowest took ${millis(calls[0].totalMicros / 1000)}</b>: ${calls[0].cause}.</p>`}
    <div class="bar"><${Choice} label="Period" value=${period} options=${[['minute', 'Minute'], ['ten', 'Ten minutes'], ['hour', 'Hour']]} change=${(over) => setSettings({ over })}/>
      ${names.length > 1 && html`<${Choice} label="Server" value=${server} change=${(of) => setSettings({ server: of })}
        options=${[['', 'All servers'], ...names.map((name) => [name, html`<${Text} of=${name}/>`])]}/>`}
      <${Moved} n=${changes} text=${many(changes, 'change')} sort=${resort}/>
      <span class="count" role="status">${answer && (calls.length < most ? many(calls.length, 'request') : `the slowest ${most}`)}</span></div>
    <${Problem} error=${error}/>${answer?.unknown?.map((why) => html`<p class="note lost"><${Text} of=${why}/>: its requests are missing.</p>`)}
    ${items.length > 0 ? html`<section class="card wide"><div class="key">${Object.entries(legend).map(([key, text]) => html`<span>
      <i class=${`h-${key}`}></i>${text}</span>`)}</div>
      <table class="past slow"><thead><tr><th>Request</th><th>Ended</th><th class="num">Took</th><th>Where its time went</th></tr></thead>
      <tbody ...${steady}>${items.map(({ key, q }) => html`<${Request} key=${key} q=${q}/>`)}</tbody></table></section>
      <p class="note">Neither the network nor the queue for a lock is in it. Disk times have those of earlier requests that it
      waited for.</p>`
    : answer ? html`<${Empty} title=${`No request ${words}.`}><p>Each server keeps the slowest for an hour, in memory.</p>
      ${all ? html`<p>A program that takes a lock makes some:</p><pre class="data">coordd lock locks nightly-report -- ./report.sh</pre>`
    : html`<p><button class="btn" onClick=${() => setSettings({ over: '', server: '' })}>Show the last hour of all servers</button></p>`}</${Empty}>`
    : !error && html`<${Asking}/>`}`;
}
