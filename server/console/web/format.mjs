// Numbers and times as people read them. Numbers of 64 bits come as texts, and become BigInt: as plain numbers they would lose
// digits silently, and a limit of 2^64-1 is an ordinary one.
export const forever = 2n ** 64n - 1n;
export const big = (wire) => BigInt(wire ?? 0);

const most = BigInt(Number.MAX_SAFE_INTEGER);
/** small returns a number to calculate times and shares with; what is too large for one becomes the largest. */
export function small(wire) {
  const value = big(wire);
  return Number(value > most ? most : value);
}

export const count = (wire) => big(wire).toLocaleString('en');

const words = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten', 'eleven', 'twelve'];
/** inWords writes small numbers out. */
export const inWords = (n) => words[n] ?? n.toLocaleString('en');
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
/** many returns "1 lock", "3 locks". */
export const many = (n, one, more = `${one}s`) => `${typeof n === 'number' ? n.toLocaleString('en') : count(n)} ${`${n}` === '1' ? one : more}`;

const two = (n) => `${n}`.padStart(2, '0');

/** ago is a time of so many milliseconds in at most two units. */
export function ago(millis) {
  const s = Math.max(0, millis) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${s < 10 ? Math.floor(s * 10) / 10 : Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(Math.floor(s % 60))} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** millis is a short time of so many milliseconds, with its tenths. */
export const millis = (v) => (v >= 1000 ? `${(v / 1000).toFixed(1)} s` : `${v >= 100 ? Math.round(v) : v.toFixed(1)} ms`);

/** limit is a time that was chosen, so often a round one. */
export const limit = (millis) => ago(millis).replace(/ 0?0 (s|min|h)$/, '');

/** roughly is a time within a sentence: one unit, written out. */
export function roughly(millis) {
  const s = Math.max(0, millis) / 1000;
  for (const { unit, name } of [{ unit: 86400, name: 'day' }, { unit: 3600, name: 'hour' }, { unit: 60, name: 'minute' }]) {
    if (s >= unit) return many(Math.floor(s / unit), name);
  }
  return s < 1 ? 'under a second' : many(Math.floor(s), 'second');
}

/** watch is a running time, as a stop watch shows it. */
export function watch(millis) {
  const s = Math.floor(Math.max(0, millis) / 1000);
  if (s >= 86400) return ago(millis);
  const h = Math.floor(s / 3600);
  return `${h ? `${h}:${two(Math.floor((s % 3600) / 60))}` : Math.floor(s / 60)}:${two(s % 60)}`;
}

/** at is a moment: the time of today, with the day before that. */
export function at(millis) {
  const t = new Date(millis);
  const time = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
  if (t.toDateString() === new Date().toDateString()) return time;
  return `${t.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })} ${time}`;
}
export const minuteOf = (millis) => at(millis).slice(-8, -3);

export const bytes = (wire) => {
  const n = small(wire);
  for (const [i, name] of ['TiB', 'GiB', 'MiB', 'KiB'].entries()) {
    const unit = 2 ** (40 - 10 * i);
    if (n >= unit) return `${(n / unit).toFixed(n >= 10 * unit ? 0 : 1)} ${name}`;
  }
  return many(n, 'byte');
};

const languages = { go: 'Go', python: 'Python', java: 'Java', nodejs: 'JS', js: 'JS', cpp: 'C++', dotnet: '.NET', rust: 'Rust', php: 'PHP' };
/** sdk shortens how an SDK names itself: "ydb-go-sdk/3.156.1" becomes "Go 3.156". */
export function sdk(text) {
  const found = /^ydb-(\w+)-sdk\/v?(\d+\.\d+)/.exec(text ?? '');
  return found && languages[found[1]] ? `${languages[found[1]]} ${found[2]}` : text;
}
/** sdkName writes it out: "Go SDK 3.156.1". */
export function sdkName(text) {
  const found = /^ydb-(\w+)-sdk\/v?(\S+)/.exec(text ?? '');
  return found && languages[found[1]] ? `${languages[found[1]]} SDK ${found[2]}` : text;
}
/** host is an address without its port. */
export const host = (address) => (address ?? '').replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
