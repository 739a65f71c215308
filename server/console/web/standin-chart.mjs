// A sequence chart of the latest messages between clients and servers, with orders between them, and the same as a table.
import { html, useLayoutEffect, useRef, useState } from './html.mjs';
import { useWidth } from './lanes.mjs';
import { bytesOfText, plain } from './name.mjs';
import { at, inWords, many } from './format.mjs';
import { Choice, Empty, Moved } from './parts.mjs';
import { outcome } from './standin-orders.mjs';

const rowHeight = 27;
const letter = 6.1; // the usual width of one, in pixels

const show = (text) => plain(bytesOfText(text));
const shorten = (text, most) => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);

function timeOf(m) {
  const t = new Date(m.at);
  return `${at(t.getTime()).slice(-8)}.${`${t.getMilliseconds()}`.padStart(3, '0')}`;
}

/** clients finds a key and a label for the client of each message. descriptions are those of sessions, by node and number. */
function clients(messages, descriptions) {
  const streams = new Map();
  for (const m of messages) {
    if (!m.stream) continue;
    const known = streams.get(m.stream) ?? streams.set(m.stream, { key: `stream ${m.stream}`, label: m.client }).get(m.stream);
    if (m.session) {
      known.key = `${m.node} ${m.session}`;
      if (!known.described) known.label = descriptions.get(known.key) || `session ${m.session}`;
    }
    if (m.description) Object.assign(known, { label: m.description, described: true });
  }
  const labels = new Map([...streams.values()].map((s) => [s.key, s]));
  return (m) => {
    if (m.from !== 'event') return streams.get(m.stream) ?? { key: m.client, label: m.client };
    const key = m.session ? `${m.node} ${m.session}` : 'server';
    return labels.get(key) ?? { key, label: descriptions.get(key) || `session ${m.session}` };
  };
}

/** columns returns the most clients that spoke last, in the order of their labels; the others share a column. */
function columns(messages, clientOf, most) {
  const found = new Map();
  for (const m of messages.toReversed()) {
    if (m.from !== 'order' && (m.from !== 'event' || m.session) && !found.has(clientOf(m).key)) found.set(clientOf(m).key, clientOf(m).label);
  }
  const all = [...found];
  const own = all.slice(0, all.length > most ? most - 1 : most).sort((a, b) => a[1].localeCompare(b[1], 'en', { numeric: true }));
  const places = new Map(own.map(([key], i) => [key, i]));
  return { labels: [...own.map(([, label]) => label), ...(all.length > own.length ? [many(all.length - own.length, 'other')] : [])],
    placeOf: (key) => places.get(key) ?? own.length };
}

/** wordsOf is a message in words, escaped. */
function wordsOf(m) {
  const words = m.from === 'order' ? [m.what, m.text, m.error ? `refused: ${m.error}` : outcome(m.result) && `→ ${outcome(m.result)}`]
    : [m.what, m.name, m.status, m.text, m.fault && `✕ ${m.fault}`, m.lost && '✕ lost'];
  return words.filter(Boolean).map(show).join(' ');
}

/** withEvents puts events that reached no client between messages, by their times. */
export function withEvents(messages, events) {
  const added = events.map((e) => ({ ...e, from: 'event', what: e.kind })).filter((e) => !messages[0] || Date.parse(e.at) >= Date.parse(messages[0].at));
  const all = [...messages, ...added].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  let last = 0;
  return all.map((m) => { // each event has a number after that of the message before it
    last = m.from === 'event' ? last + 0.001 : m.number;
    return m.from === 'event' ? { ...m, number: last } : m;
  });
}

function kindOf(m) {
  if (m.from === 'order') return 'q-order';
  if (m.from === 'event') return m.what === 'session detached' ? 'q-wait' : 'q-lost';
  if (m.fault || m.lost || m.status) return 'q-lost';
  if (m.what === 'pending' || m.what === 'not acquired') return 'q-wait';
  return m.from === 'server' ? 'q-server' : 'q-client';
}

function Row({ m, y, x, width, server, left }) {
  const kind = kindOf(m);
  const words = wordsOf(m);
  const time = html`<text x="0" y=${y + 3}>${left < 80 ? timeOf(m).slice(-6) : timeOf(m)}</text>`;
  if (kind === 'q-order') {
    return html`<g class=${kind}>${time}<rect x=${left} y=${y - 11} width=${width - left} height="20" rx="4"/>
      <text x=${left + 8} y=${y + 3}>${shorten(words, Math.floor((width - left - 16) / letter))}<title>${words}</title></text></g>`;
  }
  if (m.from === 'event') {
    return html`<g class=${kind}>${time}<path class="q-line" d=${`M${x - 4} ${y + 1}l8 8m0 -8l-8 8`}/>
      <text class="q-text" x=${server + 8} y=${y + 3}>${shorten(words, Math.floor((width - server - 12) / letter))}<title>${words}, of which no client heard</title></text></g>`;
  }
  const [from, to] = m.from === 'client' ? [x, server] : [server, m.lost ? (server + x) / 2 : x];
  const tip = to > from ? -7 : 7;
  return html`<g class=${kind}>${time}<path class="q-line" d=${`M${from} ${y + 5}L${to + (m.lost ? 0 : tip)} ${y + 5}`}/>
    ${m.lost ? html`<path class="q-line" d=${`M${to - 4} ${y + 1}l8 8m0 -8l-8 8`}/>` : html`<path class="q-tip" d=${`M${to} ${y + 5}l${tip} -4v8z`}/>`}
    <text class="q-text" x=${server + 8} y=${y}>${shorten(words, Math.floor((width - server - 12) / letter))}<title>${words}</title></text></g>`;
}

function Chart({ messages, clientOf }) {
  const [width, element] = useWidth();
  const left = width < 620 ? 52 : 92;
  const server = left + 34;
  const { labels, placeOf } = columns(messages, clientOf, Math.min(10, Math.max(2, Math.floor((width - server - 20) / 118))));
  const step = (width - server - 56) / Math.max(1, labels.length);
  const x = (place) => server + step * (place + 1);
  const height = messages.length * rowHeight + 12;
  const label = `Sequence chart of the last ${many(messages.length, 'message')} between the server and ${many(labels.length, 'client')}, the newest at the bottom. The table has the same in words.`;
  return html`<div ref=${element}>${width > 0 && html`<div class="q-head"><svg class="gantt" width=${width} height="26" aria-hidden="true">
      <text class="lab" x=${server} y="17" text-anchor="middle">server</text>
      ${labels.map((text, i) => html`<text class="lab" x=${x(i)} y="17" text-anchor="middle">${shorten(show(text), Math.floor(step / 6.4))}<title>
        ${show(text)}</title></text>`)}</svg></div>
    <svg class="gantt" width=${width} height=${height} role="img" aria-label=${label}>
      ${[server, ...labels.map((_, i) => x(i))].map((at) => html`<line class="g-grid" x1=${at} x2=${at} y1="0" y2=${height}/>`)}
      ${messages.map((m, i) => html`<${Row} key=${m.number} m=${m} y=${i * rowHeight + 18} width=${width} left=${left} server=${server}
        x=${m.from === 'order' ? 0 : m.from === 'event' && !m.session ? server : x(placeOf(clientOf(m).key))}/>`)}</svg>`}</div>`;
}

function Table({ messages, clientOf }) {
  return html`<table class="past"><thead><tr><th>Time</th><th>From</th><th>To</th><th>Message</th></tr></thead><tbody>
    ${messages.map((m) => {
    const client = m.from === 'order' ? '' : show(clientOf(m).label);
    const [from, to] = { order: ['order', 'stand-in'], client: [client, 'server'], server: ['server', client], event: [m.session ? client : 'server', 'nobody'] }[m.from];
    return html`<tr key=${m.number}><td class="at">${timeOf(m)}</td><td>${from}</td><td>${to}</td>
      <td class=${kindOf(m) === 'q-lost' ? 'lost' : ''}>${wordsOf(m)}</td></tr>`;
  })}</tbody></table>`;
}

/** Sequence shows messages as a chart or as a table. They stay as they are while the pointer or the focus is on them. */
export function Sequence({ messages, descriptions }) {
  const [form, setForm] = useState('chart');
  const [held, hold] = useState();
  const scroller = useRef();
  const shown = held ?? messages;
  const news = held ? messages.filter((m) => m.number > (held.at(-1)?.number ?? 0)).length : 0;
  const clientOf = clients(shown, descriptions);
  useLayoutEffect(() => { if (scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight; }, [shown, form]);
  const stay = () => hold((old) => old ?? messages);
  const go = () => hold(undefined);
  const View = form === 'chart' ? Chart : Table;
  return html`<section class="card"><div class="q-bar"><h2>Messages <small>the latest ${inWords(messages.length)}, newest at the bottom</small></h2>
      <${Moved} n=${news} text=${many(news, 'new message')} sort=${() => hold(messages)}/>
      <${Choice} label="Form" value=${form} options=${[['chart', 'Chart'], ['table', 'Table']]} change=${setForm}/></div>
    ${messages.length === 0 ? html`<${Empty} title="No client has said anything yet."><p>Connect one, or start the stand-in with --demo.</p></${Empty}>`
    : html`<div class="q-scroll" ref=${scroller} tabindex="0" role="region" aria-label="Messages" onPointerEnter=${stay} onPointerLeave=${go}
      onFocus=${stay} onBlur=${go}><${View} messages=${shown} clientOf=${clientOf}/></div>`}</section>`;
}
