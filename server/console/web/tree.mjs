// The tree of paths. Only what is open is asked for, a page of up to 256 names at a time.
import { html, useRef, useState } from './html.mjs';
import { currentSession, onSession } from './api.mjs';
import { useLive } from './polls.mjs';
import { Name, Text } from './name.mjs';
import { Icon, Problem } from './parts.mjs';

const opened = new Set(); // views and paths that are open, also while another view is shown
onSession(() => { if (!currentSession()) opened.clear(); });

const every = 10000; // milliseconds between two looks at an open part

/** useOpen keeps whether a part is open. What is chosen below it opens it, until somebody closes it. */
function useOpen(key, leads) {
  const [, changed] = useState(0);
  const led = useRef(false);
  if (leads && !led.current) opened.add(key);
  led.current = leads;
  const toggle = () => {
    if (!opened.delete(key)) opened.add(key);
    changed((n) => n + 1);
  };
  return [opened.has(key), toggle];
}

/** Page shows the rows of a page of a list, and the following pages once they are asked for. */
export function Page({ method, request, rowsOf, nextOf, empty }) {
  const { answer, error } = useLive(method, request, every);
  const [more, setMore] = useState(false);
  if (!answer) return error?.status ? html`<li><${Problem} error=${error}/></li>` : html`<li class="faint">…</li>`;
  const rows = rowsOf(answer);
  const next = nextOf(answer);
  return html`${rows}${rows.length === 0 && !next && html`<li class="faint">${empty}</li>`}
    ${next && (more ? html`<${Page} key=${JSON.stringify(next)} method=${method} request=${{ ...request, ...next }} rowsOf=${rowsOf} nextOf=${nextOf} empty="and nothing else"/>`
    : html`<li><button type="button" class="btn" onClick=${() => setMore(true)}>Show more</button></li>`)}`;
}

/** Branch is a directory or a node, which opens if there can be something in it. */
function Branch({ tree, path, label, node }) {
  const { view, chosen, href, inNode } = tree;
  const leads = chosen.startsWith(`${path}/`) || (Boolean(inNode) && chosen === path);
  const [open, toggle] = useOpen(`${view} ${path}`, leads);
  const opens = !node || inNode;
  const title = html`<${Icon} name=${node ? 'node' : 'folder'}/><span><${Text} of=${label}/></span>`;
  const twist = (children, name) => html`<button type="button" class="twist" aria-expanded=${open} aria-label=${name} onClick=${toggle}>
    <i aria-hidden="true"></i>${children}</button>`;
  return html`<li>${href ? html`<div class="leaf">${opens ? twist('', `What is in ${label}`) : html`<i class="twist"></i>`}
      <a href=${href(path)} aria-current=${chosen === path ? 'page' : undefined}>${title}</a></div>` : twist(title)}
    ${open && opens && html`<ul>${node ? inNode(path) : html`<${Children} tree=${tree} path=${path}/>`}</ul>`}</li>`;
}

function Children({ tree, path }) {
  const rowsOf = (answer) => (answer.children ?? []).map((c) => html`<${Branch} key=${c.name} tree=${tree} path=${`${answer.path}/${c.name}`}
    label=${c.name} node=${c.node}/>`);
  return html`<${Page} method="Inspect/Children" request=${{ path, after: '' }} rowsOf=${rowsOf} empty="Nothing is in it."
    nextOf=${(answer) => answer.more && { after: answer.children.at(-1).name }}/>`;
}

/** Nodes lists the nodes that a user may read who may not list the directories above them. */
function Nodes({ tree }) {
  const rowsOf = (answer) => (answer.nodes ?? []).map((n) => html`<${Branch} key=${n.path} tree=${tree} path=${n.path} label=${n.path} node/>`);
  return html`<${Page} method="Inspect/List" request=${{ kind: 'NODES' }} rowsOf=${rowsOf} empty="There is no node that you may read."
    nextOf=${(answer) => answer.nextPageToken && { pageToken: answer.nextPageToken }}/>`;
}

/**
 * Tree shows the database. chosen is the path that is looked at, href makes the links of paths, if these can be chosen, and
 * inNode the rows in a node, if there are any.
 */
export function Tree({ view, chosen, href, inNode }) {
  const tree = { view, chosen, href, inNode };
  const { answer, error } = useLive('Inspect/Children', { path: '', after: '' }, every);
  if (error?.status === 404 && !answer) return html`<ul class="tree"><${Nodes} tree=${tree}/></ul>`;
  if (!answer) return html`<${Problem} error=${error}/>`;
  const inside = html`<${Children} tree=${tree} path=""/>`;
  if (!href) return html`<ul class="tree">${inside}</ul>`;
  return html`<ul class="tree"><li><div class="leaf"><a href=${href(answer.path)} aria-current=${chosen === answer.path ? 'page' : undefined}>
    <${Icon} name="folder"/><span><${Text} of=${answer.path}/></span></a></div><ul>${inside}</ul></li></ul>`;
}

/** Split shows a list, and beside it the one thing of it that is chosen; on a narrow screen one of both. */
export const Split = ({ label, chosen, list, children }) => html`<div class=${`split ${chosen ? 'chosen' : ''}`}>
  <nav aria-label=${label}>${list}</nav><div>${children}</div></div>`;

/** Leaf is a link to a semaphore. */
export const Leaf = ({ href, here, bytes, sub }) => html`<li><div class="leaf"><i class="twist"></i><a href=${href} aria-current=${here ? 'page' : undefined}>
  <span><${Name} bytes=${bytes}/>${sub && html`<small>${sub}</small>`}</span></a></div></li>`;
