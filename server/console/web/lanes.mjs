// The last two hours of one lock: a lane for each holder, coloured by how the hold ended, above the length of the queue.
import { html, useEffect, useRef, useState } from './html.mjs';
import { minuteOf, roughly } from './format.mjs';

const span = 2 * 3600_000;
const mostLanes = 8;
const lane = 26;

/** useWidth returns the width of an element, and the reference to give to it. */
export function useWidth() {
  const element = useRef();
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    seen.observe(element.current);
    return () => seen.disconnect();
  }, []);
  return [width, element];
}

/** steps counts the waits that last at each moment: [[time, number], …]. */
function steps(waits, from, to) {
  const changes = waits.flatMap((w) => [[Math.max(w.from, from), 1], [Math.min(w.to ?? to, to), -1]]).filter(([t]) => t >= from)
    .sort((a, b) => a[0] - b[0]);
  let n = 0;
  return changes.map(([t, by]) => [t, n += by]);
}

const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/**
 * Lanes draws holds, { who, from, to, how } with how "now", "released" or "lost", and waits, { from, to }. A time to that is
 * missing is now.
 */
export function Lanes({ holds, waits, now }) {
  const [width, element] = useWidth();
  const from = now - span;
  const recent = holds.filter((h) => (h.to ?? now) > from);
  const names = [...new Set(recent.toSorted((a, b) => (b.to ?? now) - (a.to ?? now)).map((h) => h.who))].slice(0, mostLanes).sort();
  const narrow = width < 520;
  const left = narrow ? 74 : 130;
  const x = (t) => left + ((width - left - 8) * (Math.min(Math.max(t, from), now) - from)) / span;
  const floor = names.length * lane + 50;
  const grid = Array.from({ length: narrow ? 3 : 7 }, (_, i) => from + (span * i) / (narrow ? 2 : 6));
  const queue = steps(waits, from, now);
  const highest = Math.max(1, ...queue.map(([, n]) => n));
  const y = (n) => floor - (36 * n) / Math.max(3, highest);
  let line = `M${x(from)} ${floor}`;
  let length = 0;
  for (const [t, n] of queue) {
    line += `L${x(t)} ${y(length)}L${x(t)} ${y(n)}`;
    length = n;
  }
  const anchor = (i) => (i === 0 ? 'start' : i === grid.length - 1 ? 'end' : 'middle');
  const label = `Holders and queue of the last two hours: ${recent.length} holds by ${names.length} sessions, at most ${highest} waited.`;
  return html`<div ref=${element}>
    ${width > 0 && html`<svg class="gantt" width=${width} height=${floor + 24} role="img" aria-label=${label}>
    ${grid.map((t, i) => html`<line class="g-grid" x1=${x(t)} x2=${x(t)} y1="4" y2=${floor}/>
      <text x=${x(t)} y=${floor + 18} text-anchor=${anchor(i)}>
        ${i === grid.length - 1 ? `now, ${minuteOf(t)}` : minuteOf(t)}</text>`)}
    ${names.map((name, i) => html`<text class="lab" x="0" y=${20 + i * lane}>${shorten(name, narrow ? 11 : 19)}<title>
      ${name}</title></text>`)}
    ${recent.filter((h) => names.includes(h.who)).map((h) => html`<rect class=${`g-${h.how}`} x=${x(h.from)} rx="3" height="17"
      width=${Math.max(3, x(h.to ?? now) - x(h.from) - 1)} y=${8 + names.indexOf(h.who) * lane}>
      <title>${h.who}, ${roughly((h.to ?? now) - h.from)}</title></rect>`)}
    <text class="lab" x="0" y=${floor - 3}>queue</text>
    ${queue.length > 0 && html`<path class="g-q" d=${`${line}L${x(now)} ${floor}Z`}/>`}
      <path class="g-ql" d=${`${line}L${x(now)} ${y(length)}`}/>
  </svg>`}</div>`;
}
