// One lock: its holders, its queue, why the first waiter does not get it, and what it was before.
import { html, useState } from './html.mjs';
import { useClock, useSession } from './api.mjs';
import { useLive } from './polls.mjs';
import { lockURL, nodeURL, sessionURL, viewURL } from './route.mjs';
import { base64Of, bytesOf, bytesOfText, Name, plain, Text } from './name.mjs';
import { ago, at, big, capital, count, forever, inWords, limit, many, roughly, sdkName, small, watch } from './format.mjs';
import { lookAt } from './look.mjs';
import { Asking, Client, Empty, Facts, Life, Problem, Title } from './parts.mjs';
import { Heading } from './frame.mjs';
import { Data } from './data.mjs';
import { Lanes } from './lanes.mjs';
import { lanesOf, Past, useNames, usePast, usualOf } from './history.mjs';
import { DeleteLock, EndSession } from './acts.mjs';

const mostShown = 50; // holders and waiters

/** useOne returns the semaphore of a path and a name, null if it does not exist. */
function useOne(path, name) {
  const { answer, error, at: since } = useLive('Inspect/List', { kind: 'SEMAPHORES', path, prefix: base64Of(name), exact: true, dataBytes: 4096 }, 500);
  return { error, since, semaphore: answer && (answer.semaphores?.[0] ?? null) };
}

/** useVersion returns the version of the data of a persistent semaphore. */
function useVersion(semaphore, name) {
  const has = semaphore && big(semaphore.version) > 0n;
  return useLive(has && 'Inspect/Versions', { path: semaphore?.path, name: base64Of(name), dataBytes: 1 }, 3000).answer?.present;
}

function useOwner(path, id, every) {
  return useLive(id && 'Inspect/List', { kind: 'SESSIONS', path, session: id }, every).answer?.sessions?.[0];
}

function Copy({ text, children }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  };
  if (!navigator.clipboard) return null; // over plain HTTP, but from this machine
  return html`<button type="button" class="btn" onClick=${copy}>${done ? 'Copied' : children}</button>`;
}

/** Lede is the sentence about who has the lock and who is next. */
function Lede({ semaphore, usual, holder, next, now }) {
  const owners = big(semaphore.ownerCount);
  const first = semaphore.owners?.[0];
  const waiter = semaphore.waiters?.[0];
  let who = html`Nobody holds it${waiter ? '' : ', and nobody waits for it'}.`;
  if (owners === 1n) who = html`<b><${Title} of=${holder} id=${first.session}/></b> has held it for <b>
    ${first.sinceMillis ? ago(now - small(first.sinceMillis)) : 'an unknown time'}</b>
    ${usual && `; its last holders needed ${roughly(usual)}`}.`;
  if (owners > 1n) who = html`<b>
    ${capital(inWords(small(owners)))} sessions</b> hold ${count(semaphore.count)} of its ${big(semaphore.limit) > 2n ** 53n ? 'tokens' : many(semaphore.limit, 'token')}.`;
  if (!waiter) return html`<p class="lede">${who}</p>`;
  const silence = holder?.timeoutMillis ? html`, or ${roughly(small(holder.timeoutMillis))} after it falls silent` : '';
  const when = owners === 1n ? html`when <${Title} of=${holder} id=${first?.session}/> releases it${silence}`
    : `when ${many(waiter.count, 'token')} ${waiter.count === '1' ? 'is' : 'are'} free`;
  return html`<p class="lede">${who} <b><${Title} of=${next} id=${waiter.session}/></b> is next: it gets the lock ${when}.</p>`;
}

/** Links lists what a session holds or waits for, but for one of them. */
function Links({ path, links, but }) {
  const others = (links ?? []).filter((l) => l.semaphore !== but);
  if (others.length === 0) return null;
  return html`${others.slice(0, 8).map((l, i) => html`${i > 0 && ', '}<a href=${lockURL(path, bytesOf(l.name))}>
    <${Name} bytes=${bytesOf(l.name)}/></a>`)}${others.length > 8 && ` and ${others.length - 8} more`}`;
}

function Holder({ semaphore, link, session, now, answeredAgo }) {
  const client = session?.client;
  const since = link.sinceMillis && small(link.sinceMillis);
  return html`<section class="card"><h2>Holder</h2><div class="who big-who"><${Title} of=${session} id=${link.session}/></div>
    <div class="soft">${client ? [client.user, sdkName(client.sdk)].filter(Boolean).map((t, i) => html`${i > 0 && ', '}
      <${Text} of=${t}/>`) : session?.clientUnknown}</div>
    ${since && html`<div class="big">${watch(now - since)}<small>since ${at(since)}</small></div>`}
    <${Life} of=${session} now=${now} answeredAgo=${answeredAgo}/>
    <${Facts} rows=${[
    ['Fencing token', html`<code>${link.orderId}</code> <${Copy} text=${link.orderId}>Copy</${Copy}>`],
    ['Holds', big(semaphore.limit) > 1n && big(semaphore.limit) < forever && `${count(link.count)} of ${count(semaphore.limit)}`],
    ['Session', html`<a href=${sessionURL(semaphore.path, link.session)}>#${link.session}</a>
      ${session?.beganMillis && `, since ${at(small(session.beganMillis))}`}`],
    ['From', client?.address && html`<span class="mono"><${Text} of=${client.address}/></span>`],
    ['Through', session?.server && html`server <${Text} of=${session.server}/>`],
    ['Also holds', Links({ path: semaphore.path, links: session?.owned, but: semaphore.id })],
    ['Waits for', Links({ path: semaphore.path, links: session?.awaited, but: semaphore.id })],
    ['Data', link.data && html`<${Name} bytes=${bytesOf(link.data)}/>`],
  ]}/></section>`;
}

/** Place is a holder or a waiter in a list. */
function Place({ place, link, semaphore, now, waits }) {
  const session = useOwner(semaphore.path, link.session, waits ? 5000 : 3000);
  const time = link.sinceMillis && now - small(link.sinceMillis);
  const timeout = big(link.timeoutMillis);
  const bounded = waits && timeout !== forever && timeout > 0n;
  const share = bounded && time ? Math.min(100, (100 * time) / small(timeout)) : 0;
  return html`<li><span class=${`pos ${waits ? '' : 'on'}`}>${place}</span><div><div class="who">
      <a href=${sessionURL(semaphore.path, link.session)}><${Title} of=${session} id=${link.session}/></a></div>
      <div class="sub"><${Client} of=${session}/>
        ${session && ', '}${waits ? 'wants' : 'has'}\u00a0${count(link.count)}, token\u00a0${link.orderId}</div></div>
    <div class="t"><b>${time ? ago(time) : 'unknown'}</b> ${waits && html`<span class="faint">
      ${bounded ? `of ${limit(small(timeout))}` : 'no limit'}</span>`}
      ${bounded && html`<div class="due"><i style=${{ width: `${share}%` }}></i></div>`}</div></li>`;
}

function Places({ title, sub, links, total, children, ...rest }) {
  const shown = links.slice(0, mostShown);
  const more = big(total) - BigInt(shown.length);
  return html`<section class="card"><h2>${title} <small>${sub}</small></h2><ol class="line">
    ${shown.map((link, i) => html`<${Place} key=${link.orderId} place=${i + 1} link=${link} ...${rest}/>`)}</ol>
    ${more > 0n && html`<p class="note">And ${many(more, 'other')}: <code>coordd semaphore show</code> lists them all.</p>`}${children}</section>`;
}

/** Why explains why the first waiter does not get the lock. */
function Why({ semaphore, next, now }) {
  const w = semaphore.waiters[0];
  const free = big(semaphore.limit) - big(semaphore.count);
  const wanted = big(w.count);
  const all = wanted === big(semaphore.limit) ? 'all of it' : `${count(wanted)} of ${count(semaphore.limit)}`;
  const reason = free === 0n ? 'none is free' : `${count(free)} ${free === 1n ? 'is' : 'are'} free. Those after it may not overtake it`;
  const timeout = big(w.timeoutMillis);
  const left = small(timeout) - (now - small(w.sinceMillis));
  return html`<p class="why"><b>Why does <${Title} of=${next} id=${w.session}/> not get it?</b> It wants ${wanted === 1n && semaphore.limit === '1' ? '1 of 1' : all}, and ${reason}.
    ${timeout !== forever && w.sinceMillis ? ` It gives up in ${ago(left)}.` : ' It waits without a limit.'}</p>`;
}

const Gone = ({ path }) => html`<${Empty} title="There is no such semaphore now.">
  <p>An ephemeral one goes with its last owner, and another one may have been made under the same name. See the other locks of
    <a href=${nodeURL(path)}><${Text} of=${path}/></a>, or make it:</p>
  <pre class="data">coordd semaphore create NODE NAME --limit 1</pre></${Empty}>`;

/** Recent draws the last two hours: the holds that ended, and the holders and waiters of now. */
function Recent({ semaphore, past, now }) {
  const owners = (semaphore.owners ?? []).filter((l) => l.sinceMillis).slice(0, 8);
  const nameOf = useNames(semaphore.path, [...new Set([...owners, ...(past ?? [])].map((l) => l.session))]);
  const holds = lanesOf(past, nameOf).concat(owners.map((l) => (
    { who: plain(bytesOfText(nameOf(l.session) || `session ${l.session}`)), from: small(l.sinceMillis), how: 'now' })));
  const waits = (semaphore.waiters ?? []).filter((l) => l.sinceMillis).map((l) => ({ from: small(l.sinceMillis) }));
  if (holds.length === 0 && waits.length === 0) return null;
  return html`<div class="card wide"><h2>Last two hours</h2><${Lanes} holds=${holds} waits=${waits} now=${now}/>
    <div class="key"><span><i class="k-now"></i>holds now</span><span><i class="k-released"></i>released</span>
      <span><i class="k-lost"></i>expired or ended</span><span><i class="k-queue"></i>sessions that wait</span></div></div>`;
}

export function Lock({ route: { path, last: name } }) {
  const me = useSession();
  const { semaphore, error, since } = useOne(path, name);
  const owner = semaphore?.owners?.[0];
  const waiter = semaphore?.waiters?.[0];
  const holder = useOwner(path, owner?.session, 500);
  const next = useOwner(path, waiter?.session, 3000);
  const past = usePast(path, name);
  const usual = usualOf(past.holds);
  const version = useVersion(semaphore, name);
  const [act, setAct] = useState();
  const now = useClock();
  const answeredAgo = Date.now() - (since ?? 0);
  const crumbs = html`<p class="crumbs"><a href="#/locks">Locks</a> / <a href=${nodeURL(path)} class="mono">
    <${Text} of=${path}/></a></p>`;
  const title = html`<${Heading} title=${plain(name)}><${Name} bytes=${name}/></${Heading}>`;
  if (!semaphore) {
    return html`${crumbs}${title}${semaphore === null && !error?.status ? html`<${Gone} path=${path}/>` : html`<${Asking} error=${error}/>`}`;
  }
  const owners = big(semaphore.ownerCount);
  const waiters = big(semaphore.waiterCount);
  const look = lookAt(semaphore, holder, usual, now, answeredAgo);
  const idle = owners === 0n && waiters === 0n;
  const writes = me.rights?.includes('act');
  const chip = big(semaphore.limit) > 2n ** 53n ? many(owners, 'holder')
    : `${owners ? 'held' : 'free'}, ${count(semaphore.count)} of ${count(semaphore.limit)}`;
  const places = { semaphore, now };
  return html`${crumbs}<div class="head1"><div class="title">${title}<span class="chips">
    <span class=${`chip ${owners ? '' : 'none'}`}>${chip}</span>
      ${waiters > 0n && html`<span class="chip wait">
        ${count(waiters)} waiting</span>`}${semaphore.ephemeral && html`<span class="chip none">ephemeral</span>`}
      ${look && html`<span class=${`chip ${look.kind === 'lost' ? 'bad' : 'wait'}`}>${look.note}</span>`}</span>
      <div class="acts"><${Copy} text=${location.href}>Copy link</${Copy}>
        ${writes && owners === 1n && holder && html`<button class="btn bad" onClick=${() => setAct('end')}>End session…</button>`}
        ${writes && idle && !semaphore.ephemeral && html`<button class="btn bad" onClick=${() => setAct('delete')}>Delete…</button>`}</div></div>
    <${Lede} semaphore=${semaphore} usual=${usual} holder=${holder} next=${next} now=${now}/></div>
    <${Problem} error=${error}/>
    <${Recent} semaphore=${semaphore} past=${past.holds} now=${now}/>
    ${!idle && html`<div class="cards">
      ${owners === 1n && html`<${Holder} semaphore=${semaphore} link=${owner} session=${holder} now=${now} answeredAgo=${answeredAgo}/>`}
      ${owners > 1n && html`<${Places} title="Holders" sub="the longest first" links=${semaphore.owners ?? []} total=${owners} ...${places}/>`}
      ${waiters > 0n ? html`<${Places} title="Queue" sub="in the order in which they get it" links=${semaphore.waiters ?? []} total=${waiters} waits ...${places}>
        <${Why} semaphore=${semaphore} next=${next} now=${now}/></${Places}>`
    : html`<section class="card"><h2>Queue</h2><p class="soft">Nobody waits for it.</p></section>`}</div>`}
    <${Past} path=${path} past=${past} owner=${owner}/>
    ${(big(semaphore.dataBytes) > 0n || idle) && html`<${Data} of=${semaphore.data} length=${semaphore.dataBytes} version=${version}>
      ${version && html`<a href=${viewURL('config', path, name)}>Versions</a>`}</${Data}>`}
    ${act === 'end' && html`<${EndSession} semaphore=${semaphore} link=${owner} session=${holder} next=${next} done=${() => setAct()}/>`}
    ${act === 'delete' && html`<${DeleteLock} semaphore=${semaphore} done=${() => setAct()}/>`}`;
}
