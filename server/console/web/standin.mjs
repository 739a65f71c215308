// Stand-in: the messages of clients and servers, the faults that wait or have happened, and orders.
import { html, useMemo, useState } from './html.mjs';
import { useLive } from './polls.mjs';
import { bytes, many, at } from './format.mjs';
import { Heading } from './frame.mjs';
import { Problem } from './parts.mjs';
import { Text } from './name.mjs';
import { order, Orders, outcome, useOrder } from './standin-orders.mjs';
import { Sequence, withEvents } from './standin-chart.mjs';

const state = (r) => {
  if (r.hits > 0) return ['', `${r.hits === 1 ? 'fired' : `fired ${r.hits} times`}${r.left > 0 ? `, waits for ${many(r.left, 'more', 'more')}` : r.left < 0 && !r.over ? ', goes on' : ''}`];
  return r.over ? ['bad', 'never fired'] : ['wait', r.left < 0 ? 'waits until taken back' : 'waits'];
};

/** Rules lists the faults that wait for requests or have met some, the newest first. */
function Rules({ rules, done }) {
  const [said, say] = useState();
  const reset = async () => {
    say(await order('reset').then((result) => outcome(result) || 'Nothing goes wrong any more.', (error) => error.message));
    done();
  };
  return html`<section class="card rules"><h2>Faults that wait for requests</h2>
    ${rules.length === 0 ? html`<p class="soft">None were ordered.</p>` : html`<ul class="line dots">${rules.toReversed().map((r, i) => {
    const [kind, text] = state(r);
    return html`<li key=${i}><i class=${`dot ${kind === 'bad' ? 'h-lost' : kind === 'wait' ? 'h-wait' : 'h-data'}`} aria-hidden="true"></i>
      <div><div class="who">${r.order}</div><div class="sub"><${Text} of=${r.text}/></div></div>
      <div class="t"><span class=${`chip ${kind}`}>${text}</span>${r.hits > 0 && html`<div class="sub">${at(Date.parse(r.last))}</div>`}</div></li>`;
  })}</ul>`}
    <div class="buttons"><button type="button" class="btn" onClick=${reset}>Take all faults back</button></div>
    <p class="note" role="status">${said}</p></section>`;
}

const steps = [['1s', '+1 s'], ['10s', '+10 s'], ['1m', '+1 min']];

function Clock({ clock, done }) {
  const [said, say] = useState();
  if (!clock) return null;
  const advance = async (d) => {
    say(await order('advance', { d }).then((result) => outcome(result), (error) => error.message));
    done();
  };
  return html`<section class="card"><h2>Time</h2>${clock.fake_time
    ? html`<div class="big elapsed">${clock.elapsed} <small>have passed</small></div><div class="picks" role="group" aria-label="Let time pass">
      ${steps.map(([d, text]) => html`<button type="button" class="btn" onClick=${() => advance(d)}>${text}</button>`)}</div>
      <p class="note" role="status">${said}</p>`
    : html`<p class="soft">Time passes by itself. Start the stand-in with <code>--fake-time</code> to move it by hand.</p>`}</section>`;
}

/** save offers a text as a file. */
function save(text, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function Recording({ able }) {
  const { result, again } = useOrder(able ? 'recording' : 'elapsed', 3000);
  const [said, say] = useState();
  const begin = () => order('record').then(() => 'Streams that are opened from now on are recorded.');
  const end = () => order('save-recording').then((text) => {
    save(text, 'recording.txt');
    return `Saved as recording.txt, ${bytes(`${text.length}`)}.`;
  });
  const act = (what) => async () => {
    say(await what().catch((error) => error.message));
    again();
  };
  return html`<section class="card"><h2>Recording</h2>${able
    ? html`<p class="soft">${result?.recording ? `Under way since ${at(Date.parse(result.since))}.` : 'A script of what clients and the server say, to be replayed elsewhere.'}</p>
      <div class="buttons">${result?.recording ? html`<button type="button" class="btn" onClick=${act(end)}>Save the recording</button>`
        : html`<button type="button" class="btn" onClick=${act(begin)}>Begin a recording</button>`}</div>
      <p class="note" role="status">${said}</p>`
    : html`<p class="soft">A stand-in with <code>--record</code> or <code>--fake-time</code> makes no other recording.</p>`}</section>`;
}

function Fixture({ done }) {
  const [text, setText] = useState('');
  const [said, say] = useState();
  const load = async (event) => {
    event.preventDefault();
    say(await order('load', { text }).then(() => 'Loaded.', (error) => error.message));
    done();
  };
  const read = async (event) => { if (event.target.files[0]) setText(await event.target.files[0].text()); };
  const dump = async () => setText(await order('dump').catch((error) => `# ${error.message}`));
  return html`<form class="card" onSubmit=${load}><h2>Fixture</h2>
    <label>Nodes and semaphores<textarea name="fixture" rows="5" required value=${text} spellcheck=${false}
      placeholder=${'locks\n  semaphore "config": 0 of 3, "v1"'} onInput=${(e) => setText(e.target.value)}></textarea></label>
    <label>or a file with them<input type="file" onChange=${read}/></label>
    <div class="buttons"><button type="button" class="btn" onClick=${dump}>Show all there is</button><button class="btn">Load</button></div>
    <p class="note" role="status">${said}</p></form>`;
}

const sameMessages = (a, b) => a.length === b.length && a.at(-1)?.number === b.at(-1)?.number
  && a.every((m, i) => !m.result === !b[i].result && !m.error === !b[i].error);

const unique = (list) => [...new Set(list)].filter(Boolean).slice(0, 50);

export function StandIn() {
  const messages = useOrder('messages', 700, sameMessages);
  const rules = useOrder('rules', 1000);
  const clock = useOrder('elapsed', 1000);
  const unnoticed = useOrder('events', 1000, (a, b) => a.length === b.length && a.at(-1)?.at === b.at(-1)?.at, { unnoticed: true });
  const { result: help, error } = useOrder('help', 60_000);
  const { result: kinds } = useOrder('kinds', 60_000);
  const { answer } = useLive('Inspect/List', { kind: 'SESSIONS', pageSize: 256 }, 3000);
  const sessions = answer?.sessions ?? [];
  const descriptions = new Map(sessions.map((s) => [`${s.path} ${s.id}`, s.description]));
  // where time stands still, events have other times than messages; advance answers them there
  const goesOn = clock.result?.fake_time === false;
  const list = useMemo(() => withEvents(messages.result ?? [], goesOn ? unnoticed.result ?? [] : []), [messages.result, unnoticed.result, goesOn]);
  const done = () => [messages, rules, clock].forEach((o) => o.again());
  const known = {
    node: unique([...sessions.map((s) => s.path), ...list.map((m) => m.node)]), session: unique(sessions.map((s) => s.id)),
    semaphore: unique(list.map((m) => m.name)), client: unique(list.map((m) => m.client)),
  };
  const waiting = (rules.result ?? []).filter((r) => !r.over && r.left !== 0 && r.hits === 0).length;
  if (error && !help) return html`<${Heading} title="Stand-in"/><${Problem} error=${{ message: 'This server is no stand-in: nothing goes wrong on it by order.', status: 1 }}/>`;
  return html`<${Heading} title="Stand-in"/><p class="lede">A server for tests, on which things go wrong on demand. It keeps nothing.
      ${waiting > 0 && html` <b>${many(waiting, 'fault waits', 'faults wait')} for a request.</b>`}</p>
    <div class="wide"><${Sequence} messages=${list} descriptions=${descriptions}/></div>
    <div class="cards standin"><div class="stack">
      ${help && kinds && html`<${Orders} help=${help} kinds=${kinds} known=${known} done=${done}/>`}
      <${Rules} rules=${rules.result ?? []} done=${done}/></div>
      <div class="stack"><${Clock} clock=${clock.result} done=${done}/>${help && html`<${Recording} able=${'record' in help}/>`}
        <${Fixture} done=${done}/></div></div>`;
}
