// Names are bytes that clients choose. This module decodes them, shows them so that no two look alike because of what
// cannot be seen, and makes their form for URLs.
import { html } from './html.mjs';

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

export const bytesOf = (base64) => Uint8Array.from(atob(base64 ?? ''), (c) => c.charCodeAt(0));
export const bytesOfText = (text) => encoder.encode(text ?? '');
export const base64Of = (bytes) => btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(''));

// hidden matches what takes no room, steers the direction of text, is no character, or is a space but U+0020.
const hidden = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/u;

const hex = (n, digits) => n.toString(16).padStart(digits, '0');

function escapeOf(char) {
  const code = char.codePointAt(0);
  if (code < 0x80) return `\\x${hex(code, 2)}`;
  return code > 0xffff ? `\\u{${hex(code, 5)}}` : `\\u${hex(code, 4)}`;
}

const lengthOf = (lead) => (lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4);

/**
 * pieces splits bytes into runs of text and of escapes. In a name a backslash is escaped as well, so that no name looks like an
 * escape; lines of data are not, and keep their tabs and spaces.
 */
export function pieces(bytes, isData = false) {
  const kept = isData ? '\t\\' : '';
  const found = [];
  const add = (text, escaped) => {
    const last = found.at(-1);
    if (last && last.escaped === escaped) last.text += text;
    else found.push({ text, escaped });
  };
  for (let i = 0; i < bytes.length;) {
    let char;
    const length = lengthOf(bytes[i]);
    try {
      char = strict.decode(bytes.subarray(i, i + length));
    } catch {
      add(`\\x${hex(bytes[i], 2)}`, true);
      i++;
      continue;
    }
    const atEnd = !isData && (i === 0 || i + length >= bytes.length);
    if (kept.includes(char)) add(char, false);
    else if (char === '\\') add('\\\\', true);
    else if (hidden.test(char) || (char === ' ' && atEnd)) add(escapeOf(char), true);
    else add(char, false);
    i += length;
  }
  return found;
}

/** plain returns bytes as text for titles and labels. */
export const plain = (bytes) => pieces(bytes).map((p) => p.text).join('') || '(empty name)';

/** textOf decodes bytes as they are, for requests that take text. */
export const textOf = (bytes) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);

const Pieces = ({ of }) => html`<bdi class="nm">${of.map((p) => (p.escaped ? html`<span class="esc">${p.text}</span>` : p.text))}
  </bdi>`;

/** Name shows bytes. */
export const Name = ({ bytes }) => (bytes.length ? html`<${Pieces} of=${pieces(bytes)}/>` : html`<bdi class="nm esc">(empty name)</bdi>`);

/** Line shows a line of data. */
export const Line = ({ bytes }) => html`<${Pieces} of=${pieces(bytes, true)}/>`;

/** Text shows a text of a client, such as a description. */
export const Text = ({ of }) => html`<${Name} bytes=${bytesOfText(of)}/>`;

// urlForm escapes all bytes but those that no part of a URL treats specially.
export const urlForm = (bytes) => Array.from(bytes, (b) => {
  const char = String.fromCharCode(b);
  return /[A-Za-z0-9_.~-]/.test(char) ? char : `%${hex(b, 2).toUpperCase()}`;
}).join('');

/** fromURL is the inverse of urlForm. */
export function fromURL(text) {
  const bytes = [];
  for (let i = 0; i < text.length; i++) {
    const escaped = /^%([0-9A-Fa-f]{2})/.exec(text.slice(i, i + 3));
    if (escaped) {
      bytes.push(parseInt(escaped[1], 16));
      i += 2;
    } else bytes.push(...encoder.encode(text[i]));
  }
  return Uint8Array.from(bytes);
}

export const urlText = (text) => urlForm(bytesOfText(text));
export const textFromURL = (text) => new TextDecoder().decode(fromURL(text));
/** urlPath is the form of a node's path: its slashes stay. */
export const urlPath = (path) => path.split('/').map(urlText).join('/');
