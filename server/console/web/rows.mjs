// Long lists: only the rows near the screen are in the document, and none moves under the pointer.
import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from './html.mjs';

const beyond = 8; // rows above and below the screen that are drawn as well
const groupHeight = 42;

/** positions converts between rows and heights; groups are the rows, ascending, that are headings. */
function positions(count, groups, height) {
  const top = (i) => i * height + groups.filter((g) => g < i).length * (groupHeight - height);
  const rowAt = (y) => {
    let i = Math.floor(y / height);
    for (; i < count && top(i + 1) <= y; i++);
    while (i > 0 && top(i) > y) i--;
    return Math.min(Math.max(i, 0), count);
  };
  return { top, rowAt };
}

/**
 * Rows draws a list of count rows. item(i) returns the content and the key of row i, near(first, last) is called with the rows
 * around the screen, steady are the handlers of useSteady.
 */
export function Rows({ label, head, count, groups = [], item, near, steady }) {
  const list = useRef();
  const [view, setView] = useState({ first: 0, last: 30, height: 58 });
  const look = useCallback(() => {
    const box = list.current;
    if (!box) return;
    const height = parseInt(getComputedStyle(box).getPropertyValue('--row'), 10) || 58;
    const from = -box.getBoundingClientRect().top;
    const { rowAt } = positions(count, groups, height);
    const first = Math.max(0, rowAt(from) - beyond);
    const last = Math.min(count, rowAt(from + innerHeight) + beyond + 1);
    setView((old) => (old.first === first && old.last === last && old.height === height ? old : { first, last, height }));
  }, [count, groups.join()]);
  useLayoutEffect(look, [look]);
  useEffect(() => {
    let asked = 0;
    const soon = () => { asked ||= requestAnimationFrame(() => { asked = 0; look(); }); };
    addEventListener('scroll', soon, { passive: true });
    addEventListener('resize', soon);
    return () => {
      removeEventListener('scroll', soon);
      removeEventListener('resize', soon);
      cancelAnimationFrame(asked);
    };
  }, [look]);
  const last = Math.min(view.last, count);
  const first = Math.min(view.first, last);
  useEffect(() => near?.(first, last));
  const { top } = positions(count, groups, view.height);
  const shown = [];
  for (let i = first; i < last; i++) {
    const { key, content, kind = '' } = item(i);
    shown.push(groups.includes(i)
      ? html`<li key=${key} class="group">${content}</li>`
      : html`<li key=${key} class=${`row ${kind}`}>${content}</li>`);
  }
  const space = (key, height) => (height > 0 ? html`<li key=${key} class="space" aria-hidden="true" style=${{ height: `${height}px` }}></li>` : null);
  return html`<div class="table">${head && html`<div class="head">${head}</div>`}
    <ul ref=${list} class="list" aria-label=${label} onKeyDown=${move} ...${steady}>
      ${space('above', top(first))}${shown}${space('below', top(count) - top(last))}</ul></div>`;
}

/** move moves the focus from row to row with the arrow keys. */
function move(event) {
  const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
  const links = [...event.currentTarget.querySelectorAll('a.name')];
  const next = links[links.indexOf(document.activeElement) + step];
  if (!next) return;
  event.preventDefault();
  next.focus({ preventScroll: true });
  next.closest('.row').scrollIntoView({ block: 'nearest' });
}

/** moved counts the keys of a list that would have to move, come or go to make another of it. */
function moved(from, to) {
  const place = new Map(to.map((key, i) => [key, i]));
  const tails = []; // of increasing subsequences, by length
  let gone = 0;
  for (const key of from) {
    const i = place.get(key);
    if (i === undefined) {
      gone++;
      continue;
    }
    let [low, high] = [0, tails.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tails[middle] < i) low = middle + 1;
      else high = middle;
    }
    tails[low] = i;
  }
  return gone + to.length - tails.length;
}

/**
 * useSteady keeps the order of items, which have keys, while the pointer is over the list or the focus is in it. Items that are
 * gone stay, marked as such. Another scope is another list.
 */
export function useSteady(items, scope) {
  const [held, setHeld] = useState({ pointer: false, focus: false });
  const kept = useRef({ scope: undefined, items: [] });
  const still = (held.pointer || held.focus) && kept.current.scope === scope;
  let changes = 0;
  if (still) {
    const fresh = new Map(items.map((item) => [item.key, item]));
    changes = moved(kept.current.items.map((item) => item.key), items.map((item) => item.key));
    kept.current.items = kept.current.items.map((item) => fresh.get(item.key) ?? (item.group ? item : { ...item, gone: true }));
  } else kept.current = { scope, items };
  const [, sort] = useState(0);
  const hold = (name, value) => () => setHeld((old) => (old[name] === value ? old : { ...old, [name]: value }));
  const steady = {
    onPointerEnter: (e) => { if (e.pointerType === 'mouse') hold('pointer', true)(); },
    onPointerLeave: hold('pointer', false),
    onFocusIn: hold('focus', true),
    onFocusOut: hold('focus', false),
  };
  const resort = () => {
    kept.current = { scope: undefined, items: [] };
    sort((n) => n + 1);
  };
  return { items: kept.current.items, changes, resort, steady };
}
