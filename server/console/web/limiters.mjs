// Rate limiters: the resources of all nodes and what the servers have of them, and one of them.
import { html } from './html.mjs';
import { useClock } from './api.mjs';
import { useLive } from './polls.mjs';
import { setSettings, viewURL } from './route.mjs';
import { bytesOfText, Text, textOf } from './name.mjs';
import { at, capital, inWords, many, small } from './format.mjs';
import { Asking, Choice, Empty, Facts, Moved, Problem, Search } from './parts.mjs';
import { Rows, useSteady } from './rows.mjs';
import { useAll } from './pages.mjs';
import { Heading } from './frame.mjs';
import { Chart, merge } from './charts.mjs';

const most = 1024; // resources of a list
const boundless = 1e300; // the rate where no resource on the way up has one
const add = (a, b) => a + b;

/** real returns a number with a fraction, which comes as a text if it is not finite, and not at all if it is 0. */
const real = (wire) => (typeof wire === 'number' ? wire : wire === 'Infinity' ? Infinity : wire === '-Infinity' ? -Infinity : 0);

/** units writes a number of units. */
function units(n) {
  const size = Math.abs(n);
  if (size >= 1e15) return size >= boundless ? 'no limit' : n.toExponential(2);
  return n.toLocaleString('en', { maximumFractionDigits: size < 10 ? 2 : size < 1000 ? 1 : 0 });
}

const limitersURL = (r) => viewURL('limiter', r.path, bytesOfText(r.resource));

/** together adds up the buckets of a resource. */
function together(buckets = []) {
  const sum = { level: 0, capacity: 0, waiters: 0, waiting: 0, perSecond: 0, debt: 0 };
  for (const b of buckets) {
    sum.level += real(b.level);
    sum.capacity += real(b.capacity);
    sum.waiters += small(b.waiters);
    sum.waiting += real(b.waiting);
    sum.perSecond += real(b.perSecond);
    sum.debt += Math.max(0, -real(b.level));
  }
  return sum;
}

/** Level is a bar of what there is, of what there can be. */
function Level({ of: { level, capacity, debt }, unused }) {
  if (unused) return html`<span class="faint">unused</span>`;
  const share = level < 0 ? 100 : capacity > 0 ? Math.min(100, (100 * level) / capacity) : 0;
  return html`<div class="cap share" aria-hidden="true"><i class=${level < 0 ? 'owed' : ''} style=${{ width: `${share}%` }}></i><i class="free"></i></div>
    <div class="capn">${level >= 0 && `${units(level)} of ${units(capacity)}`}${level >= 0 && debt > 0 && ', '}${debt > 0 && html`<span class="late">debt ${units(debt)}</span>`}</div>`;
}

const levelOf = (b) => ({ level: real(b.level), capacity: real(b.capacity), debt: Math.max(0, -real(b.level)) });

function Row({ r, flat }) {
  const sum = together(r.buckets);
  const parts = r.resource.split('/');
  const depth = flat ? 0 : parts.length - 1;
  const rate = real(r.effective?.maxUnitsPerSecond);
  const servers = (r.buckets ?? []).map((b) => b.server);
  return html`<div class="cell c-name" style=${{ paddingLeft: `${Math.min(depth, 6) * 18}px` }}><a class="name" href=${limitersURL(r)}><${Text} of=${flat ? r.resource : parts.at(-1)}/></a>
      <div class="sub mono"><${Text} of=${depth ? r.resource : r.path}/></div></div>
    <div class="cell c-cap"><div class="grow"><${Level} of=${sum} unused=${servers.length === 0}/></div></div>
    <div class="cell c-for num"><div class=${rate && sum.perSecond >= 0.95 * rate ? 'age late' : 'age'}>${units(sum.perSecond)}</div>
      <div class="sub">${rate >= boundless ? 'no limit' : `of ${units(rate)}`}</div></div>
    <div class="cell c-queue"><div>${sum.waiters ? html`<b>${many(sum.waiters, 'waits', 'wait')}</b>` : html`<span class="zero">–</span>`}</div>
      <div class="sub">${sum.waiters > 0 && `for ${units(sum.waiting)}`}</div></div>
    <div class="cell c-holder"><div>${servers.length ? servers.map((s, i) => html`${i > 0 && ', '}<${Text} of=${s}/>`) : html`<span class="faint">no server</span>`}</div></div>`;
}

function Sentence({ rows }) {
  const link = (r) => html`<a href=${limitersURL(r)}><${Text} of=${r.resource}/></a>`;
  const waited = rows.map((r) => ({ r, sum: together(r.buckets) })).filter(({ sum }) => sum.waiters > 0).sort((a, b) => b.sum.waiters - a.sum.waiters);
  const owing = rows.map((r) => ({ r, sum: together(r.buckets) })).filter(({ sum }) => sum.debt > 0);
  const debts = owing.length > 0 && html` ${capital(inWords(owing.length))} ${owing.length === 1 ? 'is' : 'are'} in debt, such as ${link(owing[0].r)}.`;
  if (waited.length === 0) return html`<p class="lede"><b>Nobody waits for units.</b>${debts}</p>`;
  const [{ r, sum }] = waited;
  return html`<p class="lede"><b>${capital(inWords(waited.length))} ${waited.length === 1 ? 'resource is' : 'resources are'} waited for.</b>
    ${' '}${link(r)} by most: ${many(sum.waiters, 'call')} for ${many(Math.ceil(sum.waiting), 'unit')}.${debts}</p>`;
}

// order puts each resource behind the one above it
const order = (r) => `${r.path}\u0001${r.resource.replaceAll('/', '\u0000')}`;
const ways = { __proto__: null, rate: (sum) => sum.perSecond, wait: (sum) => sum.waiters };

export function Limiters({ route: { settings } }) {
  const { rows, more, unknown, error } = useAll({ kind: 'RESOURCES' }, 'resources', most, 2000);
  const find = (settings.find ?? '').toLowerCase();
  const way = ways[settings.by];
  const flat = Boolean(find || way);
  const matching = (rows ?? []).filter((r) => !find || `${r.path} ${r.resource}`.toLowerCase().includes(find));
  const sorted = way ? matching.toSorted((a, b) => way(together(b.buckets)) - way(together(a.buckets)) || (order(a) < order(b) ? -1 : 1))
    : matching.toSorted((a, b) => (order(a) < order(b) ? -1 : 1));
  const steady = useSteady(sorted.map((r) => ({ key: `${r.path} ${r.id}`, r })), `${find} ${settings.by}`);
  const item = (i) => {
    const { key, r, gone } = steady.items[i];
    return { key, kind: gone ? 'past' : together(r.buckets).waiters ? 'look' : '', content: html`<${Row} r=${r} flat=${flat}/>` };
  };
  const head = ['Resource', 'Level', 'Units per second', 'Queue', 'On'].map((title, i) => html`<span class=${i === 2 ? 'num' : ''}>${title}</span>`);
  if (!rows) return html`<${Heading} title="Rate limiters"/><${Asking} error=${error}/>`;
  return html`<${Heading} title="Rate limiters"/><${Sentence} rows=${rows}/>
    <div class="bar"><${Search} label="Resource or node" value=${settings.find ?? ''} change=${(text) => setSettings({ find: text })}/>
      <${Choice} label="Order" value=${settings.by ?? ''} options=${[['', 'As a tree'], ['rate', 'By use'], ['wait', 'By queue']]} change=${(by) => setSettings({ by })}/>
      <${Moved} n=${steady.changes} text=${`${many(steady.changes, 'has', 'have')} moved`} sort=${steady.resort}/>
      <span class="count" role="status">${more ? 'the first ' : ''}${many(matching.length, 'resource')}</span></div>
    <${Problem} error=${error}/>${unknown.map((why) => html`<p class="note lost"><${Text} of=${why}/>: what it has is missing.</p>`)}
    ${steady.items.length === 0 ? html`<${Empty} title=${rows.length ? 'No resource matches.' : 'There are no rate limiters.'}>${rows.length === 0 && html`<p>This makes one:</p>
      <pre class="data">coordd ratelimiter create NODE RESOURCE --rate 100</pre>`}</${Empty}>`
    : html`<div class="limiters"><${Rows} label="Resources" head=${head} count=${steady.items.length} item=${item} steady=${steady.steady}/></div>`}`;
}

/** Servers lists the buckets of a resource. */
function Servers({ buckets, unknown }) {
  return html`<section class="card wide"><h2>Servers <small>each has a bucket; what a full one has is drawn from nobody</small></h2>
    ${buckets.length === 0 && html`<p class="soft">Nobody has acquired units of it since the servers started.</p>`}
    ${buckets.length > 0 && html`<div class="scroll"><table class="past cluster limits"><thead><tr><th>Server</th><th>Level</th><th class="num">Per second</th><th class="num">Waiting</th>
      <th class="num">Came from the leader</th><th class="num">Granted</th><th class="num">Used</th></tr></thead><tbody>
    ${buckets.map((b) => html`<tr key=${b.server}><td class="w"><${Text} of=${b.server}/></td><td class="level"><${Level} of=${levelOf(b)}/></td>
      <td class="num" data-label="per second">${units(real(b.perSecond))}</td>
      <td class="num" data-label="waiting">${small(b.waiters) ? `${many(small(b.waiters), 'call')} for ${units(real(b.waiting))}` : '–'}</td>
      <td class="num" data-label="assigned">${units(real(b.assigned))}</td><td class="num" data-label="granted">${units(real(b.granted))}</td>
      <td class="num" data-label="used">${units(real(b.used))}</td></tr>`)}</tbody></table></div>`}
    ${unknown.map((why) => html`<p class="note lost"><${Text} of=${why}/></p>`)}</section>`;
}

const samplesOf = (buckets) => buckets.map((b) => ({ samples: b.samples }));

function Charts({ buckets, now }) {
  const servers = samplesOf(buckets);
  if (!servers.some((s) => s.samples?.length)) {
    return html`<p class="note">No chart yet. Each server keeps an hour of samples, one for ten seconds, of the 32 resources that it gives out most of.</p>`;
  }
  const chart = (title, valueOf) => html`<${Chart} title=${title} values=${merge(servers, valueOf, add)} format=${units} now=${now}/>`;
  return html`<div class="charts three">${chart('Units per second', (s) => real(s.perSecond))}
    ${chart('Waiting calls', (s) => small(s.waiters))}${chart('Level', (s) => real(s.level))}</div>`;
}

/** number describes a setting: its effective value, and where it comes from. */
function number(set, effective) {
  const own = real(set);
  if (effective === undefined) return own ? units(own) : 'not set';
  const value = real(effective);
  if (!own) return `${units(value)}, as above it or by default`;
  return own === value ? units(own) : `${units(value)}; it sets ${units(own)}, and above it is less`;
}

export function Limiter({ route: { path, last } }) {
  const resource = textOf(last);
  const request = { kind: 'RESOURCES', path, resource, pageSize: 256 };
  const { answer, error, at: since } = useLive('Inspect/List', request, 1000);
  const { answer: hour } = useLive('Inspect/List', { ...request, samples: true, pageSize: 64 }, 10000);
  const now = useClock();
  const crumbs = html`<p class="crumbs"><a href="#/limiters">Rate limiters</a> / <span class="mono"><${Text} of=${path}/></span></p>`;
  const r = answer?.resources?.find((one) => one.resource === resource);
  const title = html`<${Heading} title=${resource}><${Text} of=${resource}/></${Heading}>`;
  if (!r) {
    return html`${crumbs}${title}${answer && !error?.status ? html`<${Empty} title="There is no such resource now."/>`
      : html`<${Asking} error=${error}/>`}`;
  }
  const sum = together(r.buckets);
  const rate = real(r.effective?.maxUnitsPerSecond);
  const below = answer.resources.filter((one) => one !== r);
  return html`${crumbs}<div class="head1"><div class="title">${title}<span class="chips">
      ${sum.waiters > 0 && html`<span class="chip wait">${many(sum.waiters, 'call waits', 'calls wait')}</span>`}
      ${sum.debt > 0 && html`<span class="chip wait">debt ${units(sum.debt)}</span>`}</span></div>
    <p class="lede"><b>${sum.perSecond ? units(sum.perSecond) : 'No'} units per second</b> go out${rate < boundless ? `, of ${units(rate)}` : ''}${r.buckets?.length > 1 ? `, on ${inWords(r.buckets.length)} servers` : ''}.
      ${sum.waiters > 0 && ` ${capital(many(sum.waiters, 'call waits', 'calls wait'))} for ${units(sum.waiting)} units.`}
      ${sum.debt > 0 && ' Clients have taken more than there was: nothing is granted before that is repaid.'}</p></div>
    <${Problem} error=${error}/><${Charts} buckets=${hour?.resources?.[0]?.buckets ?? []} now=${now}/>
    <${Servers} buckets=${r.buckets ?? []} unknown=${answer.unknown ?? []}/>
    <div class="cards"><section class="card"><h2>Settings</h2><${Facts} rows=${[
    ['Units per second', number(r.set?.maxUnitsPerSecond, r.effective?.maxUnitsPerSecond)],
    ['Prefetch', number(r.set?.prefetchCoefficient, r.effective?.prefetchCoefficient)],
    ['Watermark', number(r.set?.prefetchWatermark, r.effective?.prefetchWatermark)],
    ['As of', at(since)],
  ]}/></section><section class="card"><h2>Below it</h2>${below.length === 0 ? html`<p class="soft">Nothing: it shares its units with no other resource.</p>`
    : html`<ul class="line dots">${below.slice(0, 50).map((one) => html`<li key=${one.id}><i class="dot h-data" aria-hidden="true"></i><div><a href=${limitersURL(one)}>
      <${Text} of=${one.resource.slice(resource.length + 1)}/></a></div><div class="t">${units(together(one.buckets).perSecond)} <span class="faint">a second</span></div></li>`)}</ul>
      ${(below.length > 50 || answer.nextPageToken) && html`<p class="note">And others: <code>coordd ratelimiter ls</code> lists them all.</p>`}`}</section></div>`;
}
