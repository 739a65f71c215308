// Sessions: every client of a node, whether it is there, and what it holds and waits for; and one of them.
import { html, useState } from './html.mjs';
import { useClock, useSession } from './api.mjs';
import { useLive } from './polls.mjs';
import { lockURL, nodeURL, sessionURL, setSettings } from './route.mjs';
import { bytesOf, bytesOfText, Name, plain, Text } from './name.mjs';
import { ago, at, big, capital, count, host, inWords, many, roughly, sdk, sdkName, small } from './format.mjs';
import { Asking, Choice, Empty, Facts, Life, Problem, Search, Title } from './parts.mjs';
import { Rows } from './rows.mjs';
import { usePages } from './pages.mjs';
import { Heading, useNodes } from './frame.mjs';
import { EndOneSession } from './acts.mjs';
import { ByHost } from './hosts.mjs';

const mostLinks = 3;

/** Links lists semaphores, and counts those that have no room. */
function Links({ path, links }) {
  const shown = links.slice(0, mostLinks).map((l, i) => html`${i > 0 && ', '}<a href=${lockURL(path, bytesOf(l.name))}>
    <${Name} bytes=${bytesOf(l.name)}/></a>`);
  return html`${shown}${links.length > mostLinks && ` and ${count(links.length - mostLinks)} more`}`;
}

export function SessionRow({ s, now, answeredAgo }) {
  const { owned = [], awaited = [], client } = s;
  const left = small(s.leftMillis) - answeredAgo;
  const share = Math.max(0, Math.min(100, (100 * left) / (small(s.timeoutMillis) || 1)));
  const state = s.attached ? html`<div>${s.beganMillis ? ago(now - small(s.beganMillis)) : 'unknown'}</div>
    <div class="sub">attached</div>`
    : html`<div class="sub"><span class="lost">ends in ${ago(left)}</span></div>
      <div class="life lost" aria-hidden="true"><i style=${{ width: `${share}%` }}></i></div>`;
  return html`<div class="cell c-name"><a class="name" href=${sessionURL(s.path, s.id)}><${Title} of=${s}/></a>
      <div class="sub">#${s.id} <span class="mono"><${Text} of=${s.path}/></span></div></div>
    <div class="cell c-holder"><div>${client ? html`<${Text} of=${host(client.address)}/>` : html`<span class="faint">
      ${s.clientUnknown || 'no client'}</span>`}</div>
      <div class="sub">${client && [sdk(client.sdk), client.user].filter(Boolean).map((t, i) => html`${i > 0 && ' · '}
        <${Text} of=${t}/>`)}</div></div>
    <div class="cell c-queue"><div>${s.server && html`<span class="only-narrow">server </span><${Text} of=${s.server}/>`}
      </div></div>
    <div class="cell c-for num">${state}</div>
    <div class="cell c-cap"><div>${owned.length ? html`holds <${Links} path=${s.path} links=${owned}/>` : html`<span class="faint">holds nothing</span>`}</div>
      <div class="sub">${awaited.length > 0 && html`<span class="late">waits for <${Links} path=${s.path} links=${awaited}/>
        </span>`}</div></div>`;
}

function Sentence({ total, detached, settings }) {
  if (total === undefined) return null;
  const gone = detached?.sessions ?? [];
  if (gone.length === 0) return html`<p class="lede">
    <b>Every session has its client.</b> ${capital(many(total, 'session'))} in all.</p>`;
  const next = gone.toSorted((a, b) => small(a.leftMillis) - small(b.leftMillis))[0];
  const number = detached.nextPageToken ? `more than ${gone.length}` : inWords(gone.length);
  return html`<p class="lede"><b>
    ${capital(number)} of ${many(total, 'session')} ${gone.length === 1 ? 'has' : 'have'} no client.</b>
    ${' '}<a href=${sessionURL(next.path, next.id)}><${Title} of=${next}/>
      </a> ends first, in ${roughly(small(next.leftMillis))}, and loses
    ${' '}${many((next.owned ?? []).length, 'lock')}.${settings.show !== 'gone' && html` <a href="#/sessions?show=gone">Show them</a>.`}</p>`;
}

const matches = (find) => (s) => [s.description, s.id, s.path, s.client?.address, s.client?.user, s.client?.sdk, s.server]
  .some((text) => text?.toLowerCase().includes(find));

export function Sessions({ route: { settings } }) {
  const show = settings.show ?? '';
  const find = (settings.find ?? '').toLowerCase();
  const total = useNodes()?.sessions;
  const { answer: detached } = useLive('Inspect/List', { kind: 'SESSIONS', filter: 'DETACHED' }, 2000);
  const keep = (s) => (show !== 'here' || s.attached) && (!find || matches(find)(s));
  const request = { kind: 'SESSIONS', filter: show === 'gone' ? 'DETACHED' : 'ALL' };
  const { pages, near } = usePages(request, 'sessions', 2000, keep, `${show} ${find}`);
  const now = useClock();
  const all = !show && !find && !pages.done && total !== undefined;
  const rows = all ? Math.max(pages.length, small(total)) : pages.length + (pages.done ? 0 : 32);
  const item = (i) => {
    const s = pages.at(i);
    if (!s) return { key: i, content: html`<div class="cell c-name"><span class="faint">…</span></div>` };
    const content = html`<${SessionRow} s=${s} now=${now} answeredAgo=${Date.now() - pages.askedAt(i)}/>`;
    return { key: `${s.path} ${s.id}`, kind: s.attached ? '' : 'look lost', content };
  };
  const head = ['Session', 'Client', 'Server', 'Since', 'Holds and waits for'].map((title) => html`<span class=${title === 'Since' ? 'num' : ''}>${title}</span>`);
  const none = find || show ? html`<${Empty} title=${show === 'gone' && !find ? 'Every session has its client.' : 'No session matches.'}><p>
      <button class="btn" onClick=${() => setSettings({ find: '', show: '' })}>Show all</button></p></${Empty}>`
    : html`<${Empty} title="There are no sessions."><p>A program that takes a lock starts one:</p>
      <pre class="data">coordd lock locks nightly-report -- ./report.sh</pre></${Empty}>`;
  return html`<${Heading} title="Sessions"/><${Sentence} total=${total} detached=${detached} settings=${settings}/>
    <div class="bar"><${Search} label="Description, number, address, user" value=${settings.find ?? ''} change=${(text) => setSettings({ find: text })}/>
      <${Choice} label="Show" value=${show} options=${[['', 'All'], ['here', 'With a client'], ['gone', 'Without']]} change=${(value) => setSettings({ show: value })}/>
      <${Choice} label="Order" value=${settings.by ?? ''} options=${[['', 'By number'], ['host', 'By host']]} change=${(by) => setSettings({ by })}/>
      <span class="count" role="status">
        ${pages.done ? many(pages.length, 'session') : `${count(all ? total : pages.length)}${all ? ' sessions' : ' found so far'}`}</span></div>
    <${Problem} error=${pages.error}/>
    ${pages.done && pages.length === 0 ? none : settings.by === 'host' ? html`<${ByHost} request=${request} keep=${keep} head=${head}/>`
    : html`<div class="sessions"><${Rows} label="Sessions" head=${head} count=${rows} item=${item} near=${near}/></div>`}`;
}

/** Table lists what one session holds or waits for. */
function Table({ title, links, path, now, waits }) {
  return html`<section class="card"><h2>${title}</h2>
    ${links.length === 0 ? html`<p class="soft">Nothing.</p>` : html`<ul class="line dots">
    ${links.map((l) => html`<li key=${l.orderId}><i class=${`dot ${waits ? 'h-wait' : 'h-data'}`} aria-hidden="true"></i>
      <div><div class="who">
      <a href=${lockURL(path, bytesOf(l.name))}><${Name} bytes=${bytesOf(l.name)}/></a></div>
      <div class="sub">${many(l.count, 'token')}, fencing token ${l.orderId}</div></div>
      <div class="t"><b>${l.sinceMillis ? ago(now - small(l.sinceMillis)) : 'unknown'}</b></div></li>`)}</ul>`}</section>`;
}

export function Session({ route: { path, last } }) {
  const me = useSession();
  const id = plain(last);
  const { answer, error, at: since } = useLive('Inspect/List', { kind: 'SESSIONS', path, session: id }, 1000);
  const [ending, setEnding] = useState(false);
  const now = useClock();
  const s = answer?.sessions?.[0];
  const name = s?.description || `session ${id}`;
  const crumbs = html`<p class="crumbs"><a href="#/sessions">Sessions</a> / <a href=${nodeURL(path)} class="mono">
    <${Text} of=${path}/></a></p>`;
  if (!s) {
    return html`${crumbs}<${Heading} title=${`session ${id}`}/>${answer && !error?.status
      ? html`<${Empty} title="There is no such session now.">
        <p>It was stopped by its client, expired, or was ended. What it held has gone to
        those that waited.</p></${Empty}>` : html`<${Asking} error=${error}/>`}`;
  }
  const { owned = [], awaited = [], client } = s;
  const lede = `It holds ${owned.length ? many(owned.length, 'lock') : 'no lock'} and waits for ${awaited.length ? many(awaited.length, 'other') : 'nothing'}.`;
  return html`${crumbs}<div class="head1"><div class="title"><${Heading} title=${plain(bytesOfText(name))}>
    <${Text} of=${name}/></${Heading}>
      <span class="chips"><span class=${`chip ${s.attached ? '' : 'bad'}`}>${s.attached ? 'attached' : 'without a client'}
        </span></span>
      <div class="acts">${me.rights?.includes('act') && html`<button class="btn bad" onClick=${() => setEnding(true)}>End session…</button>`}</div></div>
    <p class="lede">${lede}</p></div><${Problem} error=${error}/>
    <div class="cards"><section class="card"><h2>Client</h2><${Life} of=${s} now=${now} answeredAgo=${Date.now() - since}/>
      <${Facts} rows=${[
    ['Session', html`<code>${s.id}</code>${s.beganMillis && `, since ${at(small(s.beganMillis))}`}`],
    ['From', client?.address && html`<span class="mono"><${Text} of=${client.address}/></span>`],
    ['SDK', client?.sdk && html`<${Text} of=${sdkName(client.sdk)}/>`],
    ['User', client?.user && html`<${Text} of=${client.user}/>`],
    ['Through', s.server && html`server <${Text} of=${s.server}/>`],
    ['Client', !client && (s.clientUnknown || 'none')],
    ['Timeout', `${roughly(small(s.timeoutMillis))} of silence`],
    ['Key', s.hasKey && 'protected by a key'],
  ]}/></section><div class="stack"><${Table} title="Holds" links=${owned} path=${path} now=${now}/>
      <${Table} title="Waits for" links=${awaited} path=${path} now=${now} waits/></div></div>
    ${ending && html`<${EndOneSession} session=${s} done=${() => setEnding(false)}/>`}`;
}
