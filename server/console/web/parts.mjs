// Small parts that several views share.
import { html, useEffect, useRef } from './html.mjs';
import { Text } from './name.mjs';
import { ago, big, count, host, roughly, sdk, small } from './format.mjs';

const icons = {
  locks: 'M3 8.8C3 7.8 3.8 7 4.8 7h6.4c1 0 1.8.8 1.8 1.8v3.4c0 1-.8 1.8-1.8 1.8H4.8C3.8 14 3 13.2 3 12.2zM5.2 7V5a2.8 2.8 0 0 1 5.6 0v2',
  sessions: 'M10.4 5.4a2.4 2.4 0 1 1-4.8 0 2.4 2.4 0 0 1 4.8 0M3 13.4c.6-2.6 2.5-4 5-4s4.4 1.4 5 4',
  timeline: 'M2 8h2.6l2-5 3 10 2-5H14',
  cluster: 'M9.9 3.4a1.9 1.9 0 1 1-3.8 0 1.9 1.9 0 0 1 3.8 0M5.3 12a1.9 1.9 0 1 1-3.8 0 1.9 1.9 0 0 1 3.8 0M14.5 12a1.9 1.9 0 1 1-3.8 0 1.9 1.9 0 0 1 3.8 0M7.1 5.1 4.3 10.3M8.9 5.1l2.8 5.2M5.3 12h5.4',
  slow: 'M13.8 8A5.8 5.8 0 1 1 2.2 8a5.8 5.8 0 0 1 11.6 0M8 4.6V8l2.2 1.6',
  config: 'M3 4.5h10M3 8h10M3 11.5h6',
  limiters: 'M2.5 12a5.8 5.8 0 1 1 11 0M8 11l2.6-4',
  rights: 'M8 1.8 13 3.6v3.9c0 3.2-2 5.4-5 6.7-3-1.3-5-3.5-5-6.7V3.6zM5.8 7.8l1.6 1.6 2.9-3',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  folder: 'M2 4.5C2 3.7 2.7 3 3.5 3h2.6l1.5 1.8h4.9c.8 0 1.5.7 1.5 1.5v5.2c0 .8-.7 1.5-1.5 1.5h-9C2.7 13 2 12.3 2 11.5z',
  node: 'M8 2 13.2 5v6L8 14 2.8 11V5zM2.8 5 8 8l5.2-3M8 8v6',
  standin: 'M8 1.5 14.5 13.5H1.5zM8 6v3.5M8 11.6v.2',
  search: 'M11.5 7a4.5 4.5 0 1 1-9 0 4.5 4.5 0 0 1 9 0M10.5 10.5 14 14',
};
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${icons[name]}/></svg>`;

/** Tokens shows how much of a semaphore is held: a cell for each token up to 12, a bar beyond that. */
export function Tokens({ of }) {
  const [held, limit, owners] = [big(of.count), big(of.limit), big(of.ownerCount)];
  const cell = (free) => html`<i class=${free ? 'free' : ''}></i>`;
  if (limit === 1n) return html`<span class="cap one">${cell(held === 0n)}</span><span class="capn">exclusive</span>`;
  if (limit > 2n ** 53n) {
    const text = held === 0n ? 'shared' : held === limit ? 'one has all of it' : `${count(owners)} ${owners === 1n ? 'shares' : 'share'} it`;
    return html`<span class="cap one">${cell(held === 0n)}</span><span class="capn">${text}</span>`;
  }
  const text = `${count(held)} of ${count(limit)}`;
  if (limit <= 12n) {
    return html`<div class="cap" aria-hidden="true">
      ${Array.from({ length: small(limit) }, (_, i) => cell(BigInt(i) >= held))}</div>
      <div class="capn">${text}</div>`;
  }
  const share = held === 0n ? 0 : Math.max(4, small((held * 1000n) / limit) / 10);
  return html`<div class="cap share" aria-hidden="true"><i style=${{ width: `${share}%` }}></i><i class="free"></i></div>
    <div class="capn">${text}</div>`;
}

/** Queue shows the waiters: a tick for each of the first ten, as high as its wait's share of the oldest one. */
export function Queue({ waits, length, calm }) {
  if (big(length) === 0n) return html`<span class="zero" aria-label="nobody waits">–</span>`;
  const share = (i) => (waits[i] === undefined ? 14 : Math.max(14, (100 * waits[i]) / (waits[0] || 1)));
  const ticks = Array.from({ length: Math.min(10, small(length)) }, (_, i) => share(i));
  return html`<div class=${`ticks ${calm ? 'calm' : ''}`} aria-hidden="true">
    ${ticks.map((h) => html`<i style=${{ height: `${h}%` }}></i>`)}</div>
    <span><b>${count(length)}</b> <span class="faint">waiting</span></span>`;
}

/** Client says where a session comes from, in one line. */
export function Client({ of, full }) {
  const client = of?.client;
  if (!client) return of?.clientUnknown ? html`<${Text} of=${of.clientUnknown}/>` : '';
  const parts = [full ? client.address : host(client.address), client.user, sdk(client.sdk)].filter(Boolean);
  return parts.map((part, i) => html`${i > 0 && ' · '}<${Text} of=${part}/>`);
}

/** Title names a session: by its description, or its number. */
export const Title = ({ of, id }) => (of?.description ? html`<${Text} of=${of.description}/>` : `session ${of?.id ?? id}`);

/** Search is the field that "/" reaches. */
export function Search({ label, value, change }) {
  const input = useRef();
  useEffect(() => {
    const key = (e) => {
      if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
      e.preventDefault();
      input.current.select();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);
  const escape = (e) => {
    if (e.key !== 'Escape') return;
    change('');
    input.current.blur();
  };
  return html`<label class="search"><span class="vh">${label}</span><${Icon} name="search"/>
    <input ref=${input} type="search" placeholder=${label} value=${value} spellcheck=${false} autocomplete="off" maxlength="256"
      onInput=${(e) => change(e.target.value)} onKeyDown=${escape}/><kbd aria-hidden="true">/</kbd></label>`;
}

/** Choice is a row of buttons of which one is pressed. */
export const Choice = ({ label, options, value, change }) => html`<div class="seg" role="group" aria-label=${label}>
  ${options.map(([key, text]) => html`<button type="button" aria-pressed=${key === value} onClick=${() => change(key)}>
    ${text}</button>`)}</div>`;

/** Empty suggests the next step where there is nothing to show. */
export const Empty = ({ title, children }) => html`<div class="empty"><p><b>${title}</b></p>${children}</div>`;

const advice = {
  403: 'Ask an administrator for the right to read rows of the node (coordd grant), or sign in as another user.',
  404: 'It may have been deleted, or another user may see it and you do not.',
  429: 'The server has too much to do for this user. The page asks again by itself.',
  503: 'The cluster has no leader at the moment. The page asks again by itself.',
  504: 'The server did not answer in time. The page asks again by itself.',
};

/** Problem shows a refusal, with what to do about it. */
export function Problem({ error }) {
  if (!error || error.status === 0) return null; // the frame shows that the server is away
  return html`<div class="problem" role="alert"><b>${error.message}</b> ${advice[error.status] ?? ''}</div>`;
}

/** Asking stands in the place of an answer that has not come. */
export const Asking = ({ error }) => (error ? html`<${Problem} error=${error}/>` : html`<p class="lede">Asking the server.</p>`);

/** Moved is the button that sorts a list anew, where n rows would have to move. */
export const Moved = ({ n, text, sort }) => n > 0 && html`<button type="button" class="btn moved" onClick=${sort}>${text}</button>`;

/** Life is a bar of how long a session lives on. */
export function Life({ of, answeredAgo = 0, now }) {
  if (!of) return null;
  const timeout = small(of.timeoutMillis);
  const left = of.attached ? timeout : Math.max(0, small(of.leftMillis) - answeredAgo);
  const share = timeout ? Math.min(100, (100 * left) / timeout) : 0;
  const text = of.attached ? `A client has the session. It ends ${roughly(timeout)} after the client’s last sign of life.`
    : `${of.detachedMillis ? `Silent for ${ago(now - small(of.detachedMillis))}` : 'Silent'}: the session ends in ${ago(left)} if its client stays away.`;
  return html`<div class=${`life ${of.attached ? '' : 'lost'}`} aria-hidden="true"><i style=${{ width: `${share}%` }}></i>
    </div><p class="note">${text}</p>`;
}

/** Facts is a list of terms and their values; those without a value are left out. */
export function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(([, value]) => value).map(([term, value]) => html`<dt>${term}</dt><dd>${value}
    </dd>`)}</dl>`;
}
