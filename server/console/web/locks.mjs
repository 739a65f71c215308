// Locks: everything that is held or awaited, those that need a look first; or all semaphores.
import { html, useState } from './html.mjs';
import { useClock } from './api.mjs';
import { useLive } from './polls.mjs';
import { lockURL, setSettings } from './route.mjs';
import { base64Of, bytesOf, bytesOfText, Name, plain, Text } from './name.mjs';
import { ago, big, capital, count, inWords, many, roughly, small } from './format.mjs';
import { heldFor, lookAt, waitsOf } from './look.mjs';
import { Asking, Choice, Client, Empty, Moved, Problem, Queue, Search, Title, Tokens } from './parts.mjs';
import { Rows, useSteady } from './rows.mjs';
import { usePages } from './pages.mjs';
import { Heading, useNodes } from './frame.mjs';

const orders = { __proto__: null, wait: 'OLDEST_WAIT', held: 'LONGEST_HELD', name: 'NAME' };
const keyOf = (s) => `${s.path} ${s.id}`;

/** rowOf joins a semaphore with the session of its first owner and with why it needs a look. */
function rowOf(s, holders, now, answeredAgo) {
  const holder = holders.get(`${s.path} ${s.owners?.[0]?.session}`);
  return { key: keyOf(s), s, holder, look: lookAt(s, holder, small(s.usualMillis), now, answeredAgo) };
}

function Holder({ s, holder, look }) {
  const owners = big(s.ownerCount);
  const first = html`<${Title} of=${holder} id=${s.owners?.[0]?.session}/>`;
  let sub = html`<${Client} of=${holder}/>`;
  if (owners > 1n) sub = html`longest: ${first}`;
  if (owners === 0n && s.waiters?.length) sub = `the first wants ${count(s.waiters[0].count)} of ${count(s.limit)}`;
  if (look) sub = html`<span class=${look.kind}>${look.note}</span>`;
  else if (s.ephemeral && owners !== 1n) sub = html`ephemeral, ${sub}`;
  return html`<div>${owners === 0n ? html`<span class="faint">nobody</span>` : owners === 1n ? first : many(owners, 'holder')}</div>
    <div class="sub">${sub}</div>`;
}

function LockRow({ row, now }) {
  const { s, look } = row;
  const waits = waitsOf(s, now);
  const held = heldFor(s, now);
  const time = (millis, late) => html`<div class=${`age ${late ? 'late' : ''}`}>${millis === undefined ? '' : ago(millis)}
    </div>`;
  return html`<div class="cell c-name"><a class="name" href=${lockURL(s.path, bytesOf(s.name))}>
    <${Name} bytes=${bytesOf(s.name)}/></a>
      <div class="sub mono"><${Text} of=${s.path}/></div></div>
    <div class="cell c-holder"><${Holder} s=${s} holder=${row.holder} look=${look}/></div>
    <div class="c-cap"><${Tokens} of=${s}/></div>
    <div class="cell c-for num">${row.gone ? html`<span class="faint">free now</span>` : time(held, look?.held)}</div>
    <div class="queue c-queue"><${Queue} waits=${waits} length=${s.waiterCount} calm=${!look}/></div>
    <div class="cell c-old num">${time(waits[0], look?.wait)}</div>`;
}

/** Sentence sums the list up: the worst of it, in words. */
function Sentence({ rows, total, now }) {
  const looks = rows.filter((row) => row.look);
  const link = (s) => html`<a href=${lockURL(s.path, bytesOf(s.name))} title=${plain(bytesOf(s.name))}>
    <${Name} bytes=${bytesOf(s.name)}/></a>`;
  if (looks.length === 0) {
    const oldest = rows.find((row) => row.s.waiters?.length);
    return html`<p class="lede"><b>No lock needs a look.</b> ${capital(many(total, 'lock'))} ${`${total}` === '1' ? 'is' : 'are'} held or awaited
      ${oldest ? html`; the longest wait is for ${link(oldest.s)}, ${roughly(waitsOf(oldest.s, now)[0] ?? 0)}` : ', and nobody waits'}.</p>`;
  }
  const queue = ({ s }) => {
    const n = small(s.waiterCount);
    return n === 0 ? '' : ` and ${inWords(n)} ${n === 1 ? 'waits' : 'wait'} for it, the first for ${roughly(waitsOf(s, now)[0] ?? 0)}`;
  };
  return html`<p class="lede"><b>
    ${capital(inWords(looks.length))} ${looks.length === 1 ? 'lock needs' : 'locks need'} a look.</b>${
    looks.slice(0, 2).map((row) => html` ${link(row.s)} ${row.look.phrase}${row.look.wait ? '' : queue(row)}.`)}</p>`;
}

const Nothing = ({ settings }) => (settings.find
  ? html`<${Empty} title="No lock matches."><p>The search looks at names, nodes, holders and their hosts. <button class="btn"
      onClick=${() => setSettings({ find: '' })}>Show all</button></p></${Empty}>`
  : html`<${Empty} title="Nothing is held, and nobody waits."><p>Take a lock to see it here:</p>
      <pre class="data">coordd node create locks${'\n'}coordd lock locks nightly-report -- ./report.sh</pre></${Empty}>`);

function Head({ by, sortable }) {
  const column = (key, title, numeric) => {
    const on = sortable && key === by;
    if (!sortable || !key) return html`<span class=${numeric ? 'num' : ''}>${title}</span>`;
    return html`<button type="button" class=${`${numeric ? 'num' : ''} ${on ? 'on' : ''}`} aria-label=${`Sort by ${title.toLowerCase()}${on ? ', as now' : ''}`}
      onClick=${() => setSettings({ by: key === 'wait' ? '' : key })}>${title}${on && (key === 'name' ? ' ↑' : ' ↓')}</button>`;
  };
  return [column('name', 'Lock'), column('', 'Held by'), column('', 'Tokens'), column('held', 'Held for', true), column('', 'Queue'),
    column('wait', 'Oldest wait', true)];
}

// matches reports whether a row has a text in what the server's search does not look at.
const matches = ({ holder, s }, find) => [holder?.description, holder?.client?.address, holder?.client?.user, s.path, plain(bytesOf(s.name))]
  .some((text) => text?.toLowerCase().includes(find.toLowerCase()));

const [screenful, most] = [256, 1000]; // rows that are asked for at first, and once the list is scrolled down

/** Board lists the locks that are held or awaited, up to 1000 of them. */
function Board({ settings, semaphores }) {
  const [deep, setDeep] = useState(false);
  const find = settings.find ?? '';
  const by = settings.by in orders ? settings.by : 'wait';
  const request = { kind: 'SEMAPHORES', order: orders[by], pageSize: deep ? most : screenful };
  const all = useLive('Inspect/List', request, 1000);
  const found = useLive(find && 'Inspect/List', { ...request, search: base64Of(bytesOfText(find)) }, 1000);
  const now = useClock();
  const holders = new Map();
  const seen = new Map();
  for (const { answer, at } of [found, all]) {
    for (const h of answer?.holders ?? []) holders.set(`${h.path} ${h.id}`, h);
    for (const s of answer?.semaphores ?? []) if (!seen.has(keyOf(s))) seen.set(keyOf(s), rowOf(s, holders, now, Date.now() - at));
  }
  const byServer = new Set((found.answer?.semaphores ?? []).map(keyOf));
  const awaited = settings.show === 'awaited';
  const rows = [...seen.values()].filter((row) => (!awaited || big(row.s.waiterCount) > 0n)
    && (!find || byServer.has(row.key) || matches(row, find)));
  const looks = rows.filter((row) => row.look);
  const others = rows.filter((row) => !row.look);
  let items = others;
  if (looks.length) {
    items = [{ key: 'looks', group: 'Needs a look', sub: 'held or awaited far beyond the usual, or by a holder that is silent' }, ...looks,
      { key: 'others', group: awaited ? 'Everything else that is awaited' : 'Everything else that is held or awaited' }, ...others];
  }
  const steady = useSteady(items, `${by} ${find} ${settings.show}`);
  const groups = steady.items.flatMap((item, i) => (item.group ? [i] : []));
  const item = (i) => {
    const row = steady.items[i];
    if (row.group) return { key: row.key, content: html`${row.group}${row.sub && html`<small>${row.sub}</small>`}` };
    return { key: row.key, kind: `${row.look ? `look ${row.look.kind}` : ''} ${row.gone ? 'past' : ''}`, content: html`<${LockRow} row=${row} now=${now}/>` };
  };
  if (!all.answer) return html`<${Asking} error=${all.error}/>`;
  const total = all.answer.total ?? seen.size;
  return html`<${Sentence} rows=${[...seen.values()]} total=${total} now=${now}/>
    <${Controls} settings=${settings} label="Name, node, holder or host" text=${countText(rows.length, all.answer, semaphores, find || awaited)}
      moved=${steady.changes} sort=${steady.resort}/>
    <${Problem} error=${all.error}/>
    ${steady.items.length ? html`<${Rows} label="Locks" head=${html`<${Head} by=${by} sortable/>`} count=${steady.items.length} groups=${groups}
      item=${item} steady=${steady.steady} near=${(first, last) => { if (last > screenful / 2 && all.answer.more) setDeep(true); }}/>` : html`<${Nothing} settings=${settings}/>`}`;
}

function countText(shown, page, semaphores, narrowed) {
  const total = page.total ?? (page.more ? undefined : `${page.semaphores?.length ?? 0}`);
  const of = semaphores === undefined ? '' : ` of ${many(semaphores, 'semaphore')}`;
  if (narrowed) return `${count(shown)}${total ? ` of ${count(total)}` : ''} held or awaited`;
  if (page.more) return `the first ${count(shown)}${total ? ` of ${count(total)}` : ''} held or awaited`;
  return `${count(shown)}${of}`;
}

function Controls({ settings, label, text, moved, sort }) {
  return html`<div class="bar"><${Search} label=${label} value=${settings.find ?? ''} change=${(find) => setSettings({ find })}/>
    <${Choice} label="Show" value=${settings.show ?? ''} options=${[['', 'Held or awaited'], ['awaited', 'Awaited'], ['all', 'All']]}
      change=${(show) => setSettings({ show })}/>
    <${Moved} n=${moved} text=${`${many(moved, 'has', 'have')} moved`} sort=${sort}/>
    <span class="count" role="status">${text}</span></div>`;
}

/** All lists all semaphores in the order in which they were made. */
function All({ settings, semaphores }) {
  const find = settings.find ?? '';
  const { pages, near } = usePages({ kind: 'SEMAPHORES', prefix: base64Of(bytesOfText(find)) }, 'semaphores');
  const now = useClock();
  const none = new Map();
  const total = find || semaphores === undefined || pages.done ? pages.length + (pages.done ? 0 : 32) : Math.max(pages.length, small(semaphores));
  const item = (i) => {
    const s = pages.at(i);
    if (!s) return { key: i, content: html`<div class="cell c-name"><span class="faint">…</span></div>` };
    return { key: keyOf(s), content: html`<${LockRow} row=${rowOf(s, none, now, 0)} now=${now}/>` };
  };
  const loaded = find ? `${count(pages.length)}${pages.done ? '' : ' or more'}` : semaphores === undefined ? count(pages.length) : count(total);
  return html`<p class="lede">All semaphores, in the order in which they were made. The search finds names by their beginning.</p>
    <${Controls} settings=${settings} label="Beginning of a name" text=${`${loaded} semaphores`}/>
    <${Problem} error=${pages.error}/>
    ${pages.done && pages.length === 0 ? html`<${Nothing} settings=${settings}/>` : html`<${Rows} label="All semaphores"
      head=${html`<${Head}/>`} count=${total} item=${item} near=${near}/>`}`;
}

export function Locks({ route: { settings } }) {
  const semaphores = useNodes()?.semaphores;
  const View = settings.show === 'all' ? All : Board;
  return html`<${Heading} title="Locks"/><${View} settings=${settings} semaphores=${semaphores}/>`;
}
