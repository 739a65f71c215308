// Charts of one hour, a sample each 10 seconds.
import { html } from './html.mjs';
import { useWidth } from './lanes.mjs';
import { minuteOf } from './format.mjs';

const span = 3600_000;
const [top, height] = [6, 58];
const gap = 20_000; // between samples of which some are missing

/** runs parts values where samples are missing, as while a server was down. */
function runs(values) {
  const found = [];
  values.forEach((value, i) => {
    if (i === 0 || value[0] - values[i - 1][0] > gap) found.push([]);
    found.at(-1).push(value);
  });
  return found;
}

/** Chart draws values, [[time, value], …], and shows the last one in large. A server that was started lately has fewer. */
export function Chart({ title, values, format, now }) {
  const [width, element] = useWidth();
  const from = now - span;
  const shown = values.filter(([t]) => t >= from);
  const highest = Math.max(...shown.map(([, v]) => v), 0);
  const lowest = Math.min(...shown.map(([, v]) => v), 0);
  const x = (t) => (width * (t - from)) / span;
  const y = (v) => top + (height - top) * (1 - (highest > lowest ? (v - lowest) / (highest - lowest) : 0));
  const point = ([t, v]) => `${x(t).toFixed(1)} ${y(v).toFixed(1)}`;
  const lines = runs(shown).map((run) => [run, `M${run.map(point).join('L')}`]);
  const whole = lines.map(([, line]) => line).join('');
  const area = lines.map(([run, line]) => `${line}L${point([run.at(-1)[0], 0])}L${point([run[0][0], 0])}Z`).join('');
  const last = shown.at(-1);
  const label = last ? `${title}: ${format(last[1])} now, at most ${format(highest)} within an hour` : `${title}: no values yet`;
  return html`<section class="card chart"><h2>${title} <small>${last ? `at most ${format(highest)}` : 'no values yet'}
    </small></h2>
    <div class="big">${last ? format(last[1]) : '–'}</div>
    <div ref=${element}>${width > 0 && html`<svg class="gantt" width=${width} height="78" role="img" aria-label=${label}>
      <line class="g-grid" x1="0" x2=${width} y1=${y(0) + 0.5} y2=${y(0) + 0.5}/>
      ${last && html`<path class="c-area" d=${area}/><path class="c-line" d=${whole}/>`}
      <text x="0" y="74">${minuteOf(from)}</text><text x=${width} y="74" text-anchor="end">now</text></svg>`}</div></section>`;
}

/** merge makes one series of the samples of several servers, whose clocks differ: values of the same ten seconds are joined. */
export function merge(servers, valueOf, join) {
  const found = new Map();
  for (const { samples = [] } of servers) {
    for (const s of samples) {
      const slot = Math.floor(parseInt(s.atMillis, 10) / 10_000) * 10_000;
      const value = valueOf(s);
      found.set(slot, found.has(slot) ? join(found.get(slot), value) : value);
    }
  }
  return [...found].sort((a, b) => a[0] - b[0]);
}
