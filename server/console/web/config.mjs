// Configuration: the persistent semaphores of all nodes, the data of one of them, what it was before, and its change.
import { html, useState } from './html.mjs';
import { useSession } from './api.mjs';
import { useLive } from './polls.mjs';
import { lockURL, setSettings, viewURL } from './route.mjs';
import { base64Of, bytesOf, bytesOfText, Name, plain, Text } from './name.mjs';
import { at, big, bytes, many, small } from './format.mjs';
import { Asking, Empty, Problem, Search } from './parts.mjs';
import { Heading } from './frame.mjs';
import { Leaf, Page, Split, Tree } from './tree.mjs';
import { Data, Version } from './data.mjs';
import { Diff } from './diff.mjs';
import { Edit } from './edit.mjs';

const shownBytes = 64 * 1024;

/** Names lists persistent semaphores: those in a node, or those of all nodes whose names begin with a prefix. */
function Names({ path, prefix, chosen }) {
  const request = { kind: 'SEMAPHORES', filter: 'PERSISTENT', path, prefix: base64Of(bytesOfText(prefix)) };
  const rowsOf = (answer) => (answer.semaphores ?? []).map((s) => html`<${Leaf} key=${`${s.path} ${s.id}`} href=${viewURL('config', s.path, bytesOf(s.name))}
    here=${chosen === viewURL('config', s.path, bytesOf(s.name))} bytes=${bytesOf(s.name)} sub=${path ? '' : html`<${Text} of=${s.path}/>`}/>`);
  return html`<${Page} method="Inspect/List" request=${request} rowsOf=${rowsOf} empty=${path ? 'It has no persistent semaphore.' : 'No name begins like that.'}
    nextOf=${(answer) => answer.nextPageToken && { pageToken: answer.nextPageToken }}/>`;
}

function List({ route: { path, last, settings } }) {
  const find = settings.find ?? '';
  const chosen = path && viewURL('config', path, last);
  return html`<${Search} label="Beginning of a name" value=${find} change=${(text) => setSettings({ find: text })}/>
    ${find ? html`<ul class="tree"><${Names} key=${find} path="" prefix=${find} chosen=${chosen}/></ul>`
    : html`<${Tree} view="config" chosen=${path} inNode=${(node) => html`<${Names} path=${node} prefix="" chosen=${chosen}/>`}/>`}`;
}

export function Config({ route }) {
  const { path, last } = route;
  return html`<${Split} label="Nodes and semaphores" chosen=${path !== ''} list=${html`<${List} route=${route}/>`}>
    ${path ? html`<${Setting} key=${viewURL('config', path, last)} path=${path} name=${last}/>` : html`<${Heading} title="Configuration"/>
      <p class="lede">Persistent semaphores keep data: settings that programs read, and watch for changes. Choose one to see it, and its
        earlier versions.</p>`}</${Split}>`;
}

const Gone = () => html`<${Empty} title="There is no such persistent semaphore.">
  <p>It may have been deleted, or you may not read it. This makes one:</p><pre class="data">coordd config set NODE NAME DATA</pre></${Empty}>`;

const histories = {
  __proto__: null, DATA: '', NONE: 'none of them, as the node wants it', META: 'without their data, as the node wants it',
};

/** Past lists the versions, the present one first. */
function Past({ path, answer, against, compare }) {
  const versions = [...(answer.former ?? []), answer.present].toReversed();
  const kept = histories[answer.history ?? 'META'];
  const cell = (v) => {
    if (v === answer.present) return html`<span class="chip">present</span>`;
    if (v.withoutData) return html`<span class="faint">not kept</span>`;
    return html`<button type="button" class="btn" aria-pressed=${against === v.version} onClick=${() => compare(against === v.version ? undefined : v.version)}>
      ${against === v.version ? 'Hide' : 'Compare'}</button>`;
  };
  return html`<section class="card wide"><h2>Versions <small>as far as the servers have seen them since they started</small></h2>
    <table class="past versions"><thead><tr><th>Version</th><th>Changed</th><th>By</th><th class="num">Size</th><th><span class="vh">Compare</span></th></tr></thead><tbody>
    ${versions.map((v) => html`<tr key=${v.version}><td class="w">${v.version}</td><td class="at">${big(v.changedMillis) ? at(small(v.changedMillis)) : 'unknown'}</td>
      <td>${v.author ? html`<${Text} of=${v.author}/>` : html`<span class="faint">nobody, or unknown</span>`}</td><td class="num">${bytes(v.dataBytes)}</td>
      <td class="num">${cell(v)}</td></tr>`)}</tbody></table>
    ${kept && html`<p class="note">Earlier versions are kept ${kept}: <code>coordd node alter <${Text} of=${path}/> --history data</code> changes that.</p>`}
    ${(answer.unknown ?? []).map((why) => html`<p class="note lost"><${Text} of=${why}/></p>`)}</section>`;
}

function Setting({ path, name }) {
  const me = useSession();
  const { answer, error } = useLive('Inspect/Versions', { path, name: base64Of(name), former: true, dataBytes: shownBytes }, 2000);
  const [against, compare] = useState();
  const [editing, setEditing] = useState(false);
  const crumbs = html`<p class="crumbs"><a href="#/config">Configuration</a> / <span class="mono"><${Text} of=${path}/></span></p>`;
  const title = html`<${Heading} title=${plain(name)}><${Name} bytes=${name}/></${Heading}>`;
  const present = answer?.present;
  if (!present || error?.status === 404) {
    return html`${crumbs}${title}${answer || error?.status === 404 ? html`<${Gone}/>` : html`<${Asking} error=${error}/>`}`;
  }
  const former = (answer.former ?? []).find((v) => v.version === against);
  const known = answer.former?.length ?? 0;
  const writes = me.rights?.includes('act') && answer.mayUpdate;
  return html`${crumbs}<div class="head1"><div class="title">${title}<div class="acts"><a class="btn" href=${lockURL(path, name)}>Owners and queue</a>
      ${writes && html`<button type="button" class="btn" onClick=${() => setEditing(true)}>Edit…</button>`}</div></div>
    <p class="lede"><b>Version ${present.version}</b>${big(present.changedMillis) > 0n && `, since ${at(small(present.changedMillis))}`}${present.author && html`, by <b>
      <${Text} of=${present.author}/></b>`}. ${known ? `${many(known, 'earlier version is', 'earlier versions are')} known.` : 'No earlier version is known.'}</p></div>
    <${Problem} error=${error}/><${Data} of=${present.data} length=${present.dataBytes ?? '0'}/>
    ${former && html`<section class="card wide"><h2>Changes <small><${Version} of=${former}/></small></h2>
      <${Diff} from=${bytesOf(former.data)} to=${bytesOf(present.data)} names=${[`version ${former.version}`, `version ${present.version}, the present one`]}/></section>`}
    <${Past} path=${path} answer=${answer} against=${against} compare=${compare}/>
    ${editing && html`<${Edit} path=${path} name=${name} present=${present} done=${() => setEditing(false)}/>`}`;
}
