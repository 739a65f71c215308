// Rights: who may do what at a path, and by which permission on which path. Nothing is changed here.
import { html, useState } from './html.mjs';
import { useLive } from './polls.mjs';
import { rightsURL } from './route.mjs';
import { Text, textOf } from './name.mjs';
import { many } from './format.mjs';
import { Asking, Empty, Problem, Search } from './parts.mjs';
import { Heading } from './frame.mjs';
import { Split, Tree } from './tree.mjs';

const words = {
  __proto__: null, 'ydb.granular.select_row': 'see locks and data, acquire units', 'ydb.granular.update_row': 'take locks, change data',
  'ydb.granular.erase_row': 'delete semaphores, end sessions', 'ydb.granular.read_attributes': 'read attributes',
  'ydb.granular.write_attributes': 'write attributes', 'ydb.granular.create_directory': 'make directories', 'ydb.granular.create_table': 'make nodes',
  'ydb.granular.create_queue': 'make queues', 'ydb.granular.remove_schema': 'remove it', 'ydb.granular.describe_schema': 'describe it',
  'ydb.granular.alter_schema': 'alter it', 'ydb.database.create': 'make databases', 'ydb.database.drop': 'remove databases',
  'ydb.access.grant': 'give rights away', 'ydb.database.connect': 'connect',
};
const everything = Object.keys(words).length;
const everybody = 'all-users@well-known';

/** May lists rights in words. */
function May({ rights }) {
  if (rights.length === everything) return html`<span class="chip">everything</span>`;
  if (rights.length === 0) return html`<span class="faint">nothing</span>`;
  return html`<span class="chips">${rights.map((r) => html`<span class="chip none" title=${r}>${words[r] ?? r}</span>`)}</span>`;
}

const Who = ({ of }) => (of === everybody ? html`every user <span class="faint">(${everybody})</span>` : html`<${Text} of=${of}/>`);

/** Why lists the reasons of a subject's rights. */
function Why({ subject: { owns, given = [] }, levels }) {
  const where = (level) => (level ? html`inherited from <a class="mono" href=${rightsURL(levels[level].path)}><${Text} of=${levels[level].path}/></a>` : 'given here');
  return html`<ul class="why-list">${owns && html`<li>owns it, and may do everything</li>`}
    ${given.map((g) => html`<li title=${(g.rights ?? []).map((r) => words[r] ?? r).join(', ')}><code>${g.permission}</code>, ${where(g.level ?? 0)}</li>`)}</ul>`;
}

function Table({ answer, find }) {
  const subjects = (answer.subjects ?? []).filter((s) => !find || s.subject === everybody || s.subject.toLowerCase().includes(find));
  const administrators = answer.administrators?.filter((name) => !find || name.toLowerCase().includes(find));
  return html`<section class="card"><table class="past rights"><thead><tr><th>Who</th><th>May</th><th>Why</th></tr></thead><tbody>
    ${subjects.map((s) => html`<tr key=${s.subject}><td class="w"><${Who} of=${s.subject}/></td><td><${May} rights=${s.rights ?? []}/></td>
      <td><${Why} subject=${s} levels=${answer.levels}/></td></tr>`)}
    ${administrators ? administrators.map((name) => html`<tr key=${`administrator ${name}`}><td class="w"><${Text} of=${name}/></td><td>
      <span class="chip">everything</span></td><td><ul class="why-list"><li>is an administrator of the cluster</li></ul></td></tr>`)
    : !find && html`<tr><td class="w">administrators</td><td><span class="chip">everything</span></td><td><ul class="why-list"><li>of the cluster</li></ul></td></tr>`}
    </tbody></table>${answer.more && html`<p class="note">There are other subjects.</p>`}</section>`;
}

function Path({ path }) {
  const { answer, error } = useLive('Inspect/Rights', { path }, 3000);
  const [find, setFind] = useState('');
  const title = html`<${Heading} title=${`Rights at ${path || 'the database'}`}>${path ? html`<${Text} of=${path}/>` : 'Rights'}</${Heading}>`;
  if (!answer) return html`${title}<${Asking} error=${error}/>`;
  const levels = answer.levels ?? [];
  const own = answer.own ?? [];
  const cut = levels.find((l) => l.interrupts);
  return html`${path && html`<p class="crumbs"><a href="#/rights">Rights</a></p>`}${title}
    <p class="lede">${answer.unenforced ? html`<b>Rights do not count yet.</b> Everybody may do everything until the server is started with <code>--auth=required</code>; these are the rights
      that count then.` : own.length === everything ? html`<b>You may do everything</b> here.` : html`<b>You may do ${many(own.length, 'thing')}</b> here.`}
      ${cut && html` Nothing is inherited from above <span class="mono"><${Text} of=${cut.path}/></span>.`}</p>
    ${!answer.unenforced && own.length < everything && html`<div class="wide"><${May} rights=${own}/></div>`}
    <div class="bar"><${Search} label="User" value=${find} change=${setFind}/><span class="count" role="status">${many((answer.subjects ?? []).length, 'subject')}</span></div>
    <${Problem} error=${error}/>
    ${(answer.subjects ?? []).length + (answer.administrators ?? []).length === 0 && !answer.levels ? html`<${Empty} title="Nobody has rights here but administrators."/>`
    : html`<${Table} answer=${answer} find=${find.toLowerCase()}/>`}`;
}

export function Rights({ route: { path: above, last } }) {
  const path = last.length ? `${above}/${textOf(last)}` : above;
  return html`<${Split} label="Paths" chosen=${path !== ''} list=${html`<${Tree} view="rights" chosen=${path} href=${rightsURL}/>`}>
    <${Path} key=${path} path=${path}/></${Split}>`;
}
