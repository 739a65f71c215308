// The data of a semaphore, as text or in hexadecimal, and its version.
import { html, useState } from './html.mjs';
import { bytesOf, Line, Text } from './name.mjs';
import { at, big, bytes, small } from './format.mjs';
import { Choice } from './parts.mjs';

/** textIn returns data as a text that a field can keep and a reader sees whole, undefined if it is no such text. */
export function textIn(data) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data);
    return /[^\P{C}\n\t]/u.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

/** linesOf splits data at the ends of lines. */
export function linesOf(data) {
  const lines = [];
  for (let from = 0; from < data.length;) {
    const end = data.indexOf(10, from);
    lines.push(data.subarray(from, end < 0 ? data.length : end));
    from = end < 0 ? data.length : end + 1;
  }
  return lines;
}

const mostLines = 2000;

function Lines({ data }) {
  const lines = linesOf(data);
  return html`${lines.slice(0, mostLines).map((line) => html`<${Line} bytes=${line}/>${'\n'}`)}${lines.length > mostLines && `… and ${lines.length - mostLines} more lines`}`;
}

/** hexOf writes data in hexadecimal, 16 bytes a line, each with its place and the printable characters. */
export function hexOf(data) {
  const rows = Array.from({ length: Math.min(mostLines, Math.ceil(data.length / 16)) }, (_, i) => data.subarray(16 * i, 16 * i + 16));
  return rows.map((row, i) => {
    const digits = Array.from(row, (b) => b.toString(16).padStart(2, '0')).join(' ');
    const chars = Array.from(row, (b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : '·')).join('');
    return `${(16 * i).toString(16).padStart(4, '0')}  ${digits.padEnd(47)}  ${chars}`;
  }).join('\n');
}

/** Version names the version of data, and its change. */
export const Version = ({ of }) => html`version ${of.version}${big(of.changedMillis) > 0n && `, changed ${at(small(of.changedMillis))}`}${
  of.author && html` by <${Text} of=${of.author}/>`}`;

/** Data shows data, of which there may be more than is here. */
export function Data({ of, length, title = 'Data', version, children }) {
  const data = bytesOf(of);
  const [form, setForm] = useState();
  const shown = form ?? (textIn(data) === undefined ? 'hex' : 'text');
  const part = big(length) > BigInt(data.length) ? `, the first ${bytes(`${data.length}`)} of them here` : '';
  return html`<section class="card wide"><div class="q-bar"><h2>${title} <small>
    ${bytes(length)}${part}${version && html`, <${Version} of=${version}/>`}</small></h2>${children}
    ${data.length > 0 && html`<${Choice} label="Form" value=${shown} options=${[['text', 'Text'], ['hex', 'Hex']]} change=${setForm}/>`}</div>
    ${data.length === 0 ? html`<p class="soft">It has no data.</p>`
    : html`<pre class=${`data ${shown}`} tabindex="0">${shown === 'hex' ? hexOf(data) : html`<${Lines} data=${data}/>`}</pre>`}</section>`;
}
