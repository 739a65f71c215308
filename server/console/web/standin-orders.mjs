// Orders to a stand-in: calls of its control API, and a form for each order, made of the help that the API gives.
import { html, useEffect, useState } from './html.mjs';
import { Refusal } from './api.mjs';
import { many } from './format.mjs';

/** order gives the stand-in an order and returns its answer. Errors: Refusal. */
export async function order(name, values = {}) {
  let response;
  let answer;
  try {
    response = await fetch('faults', {
      method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Coordd-Standin': '1' }, cache: 'no-store',
      body: JSON.stringify({ ...values, do: name }), credentials: 'omit', redirect: 'error',
    });
    answer = await response.json();
  } catch {
    throw new Refusal(0, 'OFFLINE', 'No stand-in answers.');
  }
  if (answer.error) throw new Refusal(response.status, '', answer.error);
  return answer.result;
}

/**
 * useOrder gives an order that only looks again and again; same compares two answers.
 * @param {string} name
 * @param {number} every
 * @param {(a: any, b: any) => boolean} [same]
 * @param {object} [values]
 */
export function useOrder(name, every, same, values) {
  const [state, setState] = useState({});
  const [turn, again] = useState(0);
  useEffect(() => {
    let over = false;
    let timer;
    const ask = async () => {
      try {
        const result = document.hidden ? undefined : await order(name, values);
        if (!over && result !== undefined) setState((old) => (old.result && same?.(old.result, result) ? old : { result }));
      } catch (error) {
        if (!over) setState((old) => ({ ...old, error }));
      }
      if (!over) timer = setTimeout(ask, every);
    };
    ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [name, turn]);
  return { ...state, again: () => again((n) => n + 1) };
}

/** outcome describes the end of an order. */
export function outcome(result) {
  if (result === undefined || result === null) return '';
  if (typeof result === 'number') return `met ${result}`;
  if (typeof result === 'string') return '';
  if (result.troubled) return result.troubled;
  if (result.missed) return `${many(result.missed.length, 'fault')} had met nothing`;
  if (!result.events) return '';
  return result.events.length === 0 ? 'nothing happened'
    : result.events.map((e) => `${e.kind}${e.session ? ` ${e.session}` : ''}${e.semaphore ? ` “${e.semaphore}”` : ''}`).join(', ');
}

// Orders by what they strike. Those that have a place of their own on the page, only look, or are for several servers or a disk
// are left out; orders that are not known here come last.
/** @type {[string, string[]][]} */
const groups = [
  ['Requests', ['fail-next', 'fail-some', 'delay-next', 'answer-lost', 'repeat-next']],
  ['Streams and sessions', ['drop-streams', 'detach-session', 'expire-session', 'spurious-notice']],
  ['Server', ['lose-leader', 'restart', 'drop-node']],
];
const elsewhere = ['help', 'requests', 'forget-requests', 'pending', 'rules', 'kinds', 'messages', 'events', 'elapsed', 'recording', 'dump',
  'reset', 'advance', 'load', 'record', 'save-recording', 'partition', 'heal', 'full-disk', 'slow-disk'];

/** parse takes a help text apart: "kind= [n=1]: the next requests fail". */
function parse(help) {
  const end = help.indexOf(': ');
  const head = end > 0 && help.slice(0, end).includes('=') ? help.slice(0, end) : '';
  const fields = [];
  let optional = false;
  for (const [, open, close, name, value] of head.matchAll(/(\[)|(\])|(\w+)=([^\s\]]*)/g)) {
    if (open) optional = true;
    else if (close) optional = false;
    else fields.push({ name, value, optional });
  }
  return { fields, text: head ? help.slice(end + 2) : help };
}

/** Field is a control for an argument. known has suggestions by the names of arguments. */
function Field({ field: { name, value, optional }, values, kinds, known, change }) {
  let options;
  if (value.includes('|')) options = value.split('|');
  else if (value === 'true') options = ['true', 'false'];
  else if (name === 'kind') options = Object.keys(kinds);
  else if (name === 'status' && kinds[values.kind]) options = kinds[values.kind];
  const label = html`<span>${name}${optional && html` <span class="faint">optional</span>`}</span>`;
  if (options) {
    return html`<label>${label}<select name=${name} required=${!optional} value=${values[name] ?? ''} onChange=${(e) => change(name, e.target.value)}>
      <option value=""></option>${options.map((o) => html`<option value=${o}>${o}</option>`)}</select></label>`;
  }
  const list = known[name] && `known-${name}`;
  return html`<label>${label}<input name=${name} required=${!optional} value=${values[name] ?? ''} placeholder=${value} list=${list}
      autocomplete="off" spellcheck=${false} onInput=${(e) => change(name, e.target.value)}/>
    ${list && html`<datalist id=${list}>${known[name].map((k) => html`<option value=${k}></option>`)}</datalist>`}</label>`;
}

function Form({ name, help, kinds, known, done }) {
  const { fields, text } = parse(help);
  const [values, setValues] = useState(() => Object.fromEntries(fields.filter((f) => !f.optional && !f.value.includes('|')).map((f) => [f.name, f.value])));
  const [said, say] = useState();
  const submit = async (event) => {
    event.preventDefault();
    say(undefined);
    try {
      const given = Object.entries(values).filter(([, value]) => value !== '');
      const result = await order(name, Object.fromEntries(given));
      say({ text: outcome(result) });
    } catch (error) {
      say({ error });
    }
    done();
  };
  const change = (key, value) => setValues((old) => ({ ...old, [key]: value, ...(key === 'kind' ? { status: '' } : {}) }));
  return html`<form class="order" onSubmit=${submit}><p class="soft">${text.charAt(0).toUpperCase() + text.slice(1)}.</p>
    <div class="fields">${fields.map((f) => html`<${Field} key=${f.name} field=${f} values=${values} kinds=${kinds} known=${known} change=${change}/>`)}</div>
    <div class="buttons"><button class="btn bad">Order ${name}</button></div>
    <div role="status">${said?.error ? html`<div class="problem"><b>${said.error.message}</b></div>`
    : said && html`<p class="note said">Ordered. ${said.text}</p>`}</div></form>`;
}

/** Orders has a button for each order, which opens its form. */
export function Orders({ help, kinds, known, done }) {
  const [open, setOpen] = useState('');
  const unknown = Object.keys(help).filter((name) => !elsewhere.includes(name) && !groups.some(([, names]) => names.includes(name)));
  const shown = [...groups, ['Others', unknown]].map(([title, names]) => ({ title, names: /** @type {string[]} */ (names).filter((n) => help[n]) })).filter(({ names }) => names.length > 0);
  return html`<section class="card"><h2>Make something go wrong</h2>
    ${shown.map(({ title, names }) => html`<div class="picks" role="group" aria-label=${title}><span class="faint">${title}</span>
      ${names.map((name) => html`<button type="button" class="btn" aria-pressed=${open === name}
        onClick=${() => setOpen(open === name ? '' : name)}>${name}</button>`)}</div>`)}
    ${open && html`<${Form} key=${open} name=${open} help=${help[open]} kinds=${kinds} known=${known} done=${done}/>`}</section>`;
}
