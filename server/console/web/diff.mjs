// Two texts side by side, by lines.
import { html } from './html.mjs';
import { Line } from './name.mjs';
import { many } from './format.mjs';
import { linesOf } from './data.mjs';

const mostCells = 4_000_000; // of the table of common lines; beyond that all lines between the common ends count as changed
const around = 3; // equal lines that are shown beside a change
const mostRows = 1000;

/** changes returns the runs of a and b that are equal or not, in their order: { same, a: [from, to], b: [from, to] }. */
function changes(a, b) {
  let [start, endA, endB] = [0, a.length, b.length];
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) [endA, endB] = [endA - 1, endB - 1];
  const runs = [];
  const add = (same, n, m) => {
    const last = runs.at(-1);
    const [i, j] = last ? [last.a[1], last.b[1]] : [0, 0];
    if (last && last.same === same) [last.a[1], last.b[1]] = [i + n, j + m];
    else if (n + m > 0) runs.push({ same, a: [i, i + n], b: [j, j + m] });
  };
  add(true, start, start);
  const [n, m] = [endA - start, endB - start];
  if (n * m > mostCells) add(false, n, m);
  else {
    const width = m + 1;
    const common = new Uint32Array((n + 1) * width); // how many lines are common from (i, j) on
    for (let i = n - 1; i >= 0; i--) {
      for (let j = m - 1; j >= 0; j--) {
        common[i * width + j] = a[start + i] === b[start + j] ? common[(i + 1) * width + j + 1] + 1
          : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
      }
    }
    for (let [i, j] = [0, 0]; i < n || j < m;) {
      if (i < n && j < m && a[start + i] === b[start + j]) {
        add(true, 1, 1);
        [i, j] = [i + 1, j + 1];
      } else if (j === m || (i < n && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
        add(false, 1, 0);
        i++;
      } else {
        add(false, 0, 1);
        j++;
      }
    }
  }
  add(true, a.length - endA, b.length - endB);
  return runs;
}

/** rowsOf puts lines beside each other: { a, b, same } are places of lines, { skipped } stands for equal ones. */
export function rowsOf(a, b) {
  const rows = [];
  const runs = changes(a, b);
  runs.forEach((run, at) => {
    const [n, m] = [run.a[1] - run.a[0], run.b[1] - run.b[0]];
    const head = run.same && at > 0 ? around : 0;
    const tail = run.same && at < runs.length - 1 ? around : 0;
    for (let i = 0; i < Math.max(n, m); i++) {
      const skipped = n - head - tail;
      if (run.same && i === head && skipped > 1) {
        rows.push({ skipped });
        i += skipped - 1;
      } else rows.push({ a: i < n ? run.a[0] + i : undefined, b: i < m ? run.b[0] + i : undefined, same: run.same });
    }
  });
  return rows;
}

const latin = new TextDecoder('latin1'); // another character for each byte

/** Diff shows the lines of two data beside each other. */
export function Diff({ from, to, names }) {
  const [a, b] = [linesOf(from), linesOf(to)];
  const rows = rowsOf(a.map((line) => latin.decode(line)), b.map((line) => latin.decode(line)));
  if (rows.every((row) => row.same || row.skipped)) return html`<p class="soft">${from.length === to.length ? 'Both are the same.' : 'They differ in the last end of a line only.'}</p>`;
  const side = (lines, i) => html`<td class="n">${i === undefined ? '' : i + 1}</td><td>${i !== undefined && html`<${Line} bytes=${lines[i]}/>`}</td>`;
  return html`<div class="scroll"><table class="diff"><thead><tr><th class="n"><span class="vh">Line</span></th><th>${names[0]}</th><th class="n"><span class="vh">Line</span></th><th>${names[1]}</th></tr></thead><tbody>
    ${rows.slice(0, mostRows).map((row) => (row.skipped ? html`<tr class="d-skip"><td colspan="4">${many(row.skipped, 'equal line')}</td></tr>`
    : html`<tr class=${`${row.same ? '' : 'd-changed'} ${row.a === undefined ? 'd-new' : ''} ${row.b === undefined ? 'd-old' : ''}`}>
      ${side(a, row.a)}${side(b, row.b)}</tr>`))}</tbody></table></div>
    ${rows.length > mostRows && html`<p class="note">Only the first ${mostRows} rows are shown.</p>`}`;
}
