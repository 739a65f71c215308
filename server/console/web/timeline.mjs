// Timeline: what was lost, changed and done, the newest first.
import { html } from './html.mjs';
import { useClock } from './api.mjs';
import { useLive } from './polls.mjs';
import { nodeURL, setSettings } from './route.mjs';
import { Text } from './name.mjs';
import { at, minuteOf, many, small } from './format.mjs';
import { Choice, Empty, Moved, Problem } from './parts.mjs';
import { Rows, useSteady } from './rows.mjs';
import { Heading } from './frame.mjs';
import { useWidth } from './lanes.mjs';
import { classOf, classes, Sentence, worst } from './events.mjs';

const periods = { __proto__: null, hour: [3600_000, 'in the last hour'], day: [24 * 3600_000, 'in the last day'],
  week: [7 * 24 * 3600_000, 'in the last week'] };
const bars = 60;

/** Histogram counts events by time and class. */
function Histogram({ events, from, now }) {
  const [width, element] = useWidth();
  const step = (now - from) / bars;
  const counts = Array.from({ length: bars }, () => new Map());
  for (const e of events) {
    const bar = counts[Math.min(bars - 1, Math.floor((small(e.timeMillis) - from) / step))];
    bar?.set(classOf(e).key, (bar.get(classOf(e).key) ?? 0) + 1);
  }
  const sum = (bar) => [...bar.values()].reduce((a, b) => a + b, 0);
  const highest = Math.max(4, ...counts.map(sum));
  const x = (i) => (width * i) / bars;
  const stack = (bar, i) => {
    let top = 64;
    return classes.filter((c) => bar.has(c.key)).map((c) => {
      const height = (60 * bar.get(c.key)) / highest;
      top -= height;
      return html`<rect class=${`h-${c.key}`} x=${x(i) + 1} width=${Math.max(1, x(1) - 2)} y=${top} height=${height} rx="1.5"/>`;
    });
  };
  const ticks = [0, 15, 30, 45, 60];
  const anchor = (i) => (i === 0 ? 'start' : i === bars ? 'end' : 'middle');
  return html`<div ref=${element}>
    ${width > 0 && html`<svg class="gantt" width=${width} height="86" role="img" aria-label=${`Events by time: ${many(events.length, 'event')}, at most ${Math.max(0, ...counts.map(sum))} in one bar.`}>
    <line class="g-grid" x1="0" x2=${width} y1="64.5" y2="64.5"/>${counts.map(stack)}
    ${ticks.map((i) => html`<text x=${x(i)} y="81" text-anchor=${anchor(i)}>
      ${i === bars ? 'now' : now - from > 86400_000 ? at(from + i * step).slice(0, 6) : minuteOf(from + i * step)}</text>`)}
      </svg>`}</div>`;
}

function EventRow({ e }) {
  return html`<div class="cell e-time">${at(small(e.timeMillis))}</div>
    <div class="cell e-text"><div><i class=${`dot h-${classOf(e).key}`} aria-hidden="true"></i><${Sentence} of=${e}/></div>
      </div>
    <div class="cell e-node sub">${e.path && html`<a class="mono" href=${nodeURL(e.path)}><${Text} of=${e.path}/>
      </a>`}${!e.number && e.server && e.kind !== 'LEADER' && html` on <${Text} of=${e.server}/>`}</div>`;
}

export function Timeline({ route: { settings } }) {
  const period = settings.over in periods ? settings.over : 'hour';
  const [span, words] = periods[period];
  const now = useClock(2000);
  const from = Math.floor((now - span) / 60_000) * 60_000;
  const { answer, error } = useLive('Inspect/Events', { sinceMillis: `${Math.floor((now - span) / 600_000) * 600_000}`, limit: 1000 }, 2000);
  const events = (answer?.events ?? []).filter((e) => small(e.timeMillis) >= from);
  const shown = settings.kind ? events.filter((e) => classOf(e).key === settings.kind) : events;
  const items = shown.map((e, i) => ({ key: e.number ? `${e.index}.${e.number}` : `${e.server} ${e.index} ${e.timeMillis} ${e.kind} ${e.session ?? i}`, e }));
  for (const server of answer?.unknown ?? []) items.unshift({ key: server, gap: server });
  const { items: list, changes, resort, steady } = useSteady(items, `${period} ${settings.kind}`);
  const item = (i) => {
    const { key, e, gap } = list[i];
    return { key, content: gap ? html`<div class="cell e-time"></div>
      <div class="cell e-text soft">Some events may be missing: <${Text} of=${gap}/></div>` : html`<${EventRow} e=${e}/>` };
  };
  const chips = [['', 'All'], ...classes.filter((c) => events.some((e) => classOf(e) === c) || settings.kind === c.key).map((c) => [c.key, c.title])];
  return html`<${Heading} title="Timeline"/>${answer && html`<p class="lede">${worst(events, words)}</p>`}
    <div class="bar"><${Choice} label="Period" value=${period} options=${[['hour', 'Hour'], ['day', 'Day'], ['week', 'Week']]} change=${(over) => setSettings({ over })}/>
      <${Choice} label="Kind" value=${settings.kind ?? ''} options=${chips} change=${(kind) => setSettings({ kind })}/>
      <${Moved} n=${changes} text=${many(changes, 'new event')} sort=${resort}/>
      <span class="count" role="status">
        ${answer && `${many(shown.length, 'event')}${answer.more ? ', and older ones' : ''}`}</span></div>
    <${Problem} error=${error}/>
    ${answer && html`<section class="card"><${Histogram} events=${shown} from=${from} now=${now}/></section>`}
    ${list.length > 0 ? html`<div class="wide events">
      <${Rows} label="Events" count=${list.length} item=${item} steady=${steady}/></div>`
    : answer && html`<${Empty} title=${`Nothing to show ${words}.`}>
      <p>Here come sessions that end with their locks, changes of configuration, and acts of administrators.
      Grants and releases are not among them: see the page of a lock.</p></${Empty}>`}`;
}
