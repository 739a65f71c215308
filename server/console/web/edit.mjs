// The change of a configuration: what was read is replaced only if nobody has changed it meanwhile.
import { html, useLayoutEffect, useRef, useState } from './html.mjs';
import { call } from './api.mjs';
import { refresh } from './polls.mjs';
import { base64Of, bytesOf, bytesOfText, Name, Text } from './name.mjs';
import { bytes, small } from './format.mjs';
import { Reason } from './acts.mjs';
import { textIn, Version } from './data.mjs';
import { Diff } from './diff.mjs';

const mostEdited = 40_000; // bytes: a request has room for these in base64

/** Conflict shows the present data beside the text that was to replace an older version. */
const Conflict = ({ base, present, text, rebase, restart }) => html`<div class="problem" role="alert"><b>It has changed since you began: it was version ${base.version}, and is${' '}
    <${Version} of=${present}/>.</b> Nothing was saved.</div>
  <${Diff} from=${bytesOf(present.data)} to=${bytesOfText(text)} names=${[`version ${present.version}, the present one`, 'your text']}/>
  <div class="buttons"><button type="button" class="btn" onClick=${restart}>Begin again with version ${present.version}</button>
    <button type="button" class="btn bad" onClick=${rebase}>Keep your text</button></div>`;

export function Edit({ path, name, present, done }) {
  const dialog = useRef();
  const [base, setBase] = useState(present);
  const [text, setText] = useState(() => textIn(bytesOf(present.data)));
  const [theirs, setTheirs] = useState();
  const [error, setError] = useState();
  const [busy, setBusy] = useState(false);
  const [reason, setReason] = useState('');
  useLayoutEffect(() => { dialog.current.showModal(); }, []);
  const size = bytesOfText(text).length;
  const change = (value) => { setText(value); setError(undefined); };
  const adopt = (withText) => () => {
    setBase(theirs);
    if (withText) setText(textIn(bytesOf(theirs.data)) ?? text);
    setTheirs(undefined);
  };
  const submit = async (event) => {
    event.preventDefault();
    const why = `${new FormData(event.target).get('reason')}`;
    setReason(why); // also for another attempt
    setBusy(true);
    setError(undefined);
    try {
      await call('Inspect/UpdateData', { path, name: base64Of(name), data: base64Of(bytesOfText(text)), expected: base.version, reason: why });
      refresh();
      done();
    } catch (refusal) {
      const now = refusal.code === 'Aborted' && await call('Inspect/Versions', { path, name: base64Of(name) }).catch(() => undefined);
      if (now?.present) setTheirs(now.present);
      else setError(refusal);
      setBusy(false);
    }
  };
  const cancel = html`<button type="button" class="btn" onClick=${() => dialog.current.close()}>Cancel</button>`;
  let body = html`<p>This data is ${text === undefined ? 'no text that a page can edit without changing other bytes of it' : `longer than the ${bytes(`${mostEdited}`)} that a page can send`}.
    The command line can: <code>coordd config set</code>.</p><div class="buttons">${cancel}</div>`;
  if (theirs) body = html`<${Conflict} base=${base} present=${theirs} text=${text} rebase=${adopt(false)} restart=${adopt(true)}/>`;
  else if (text !== undefined && small(present.dataBytes) <= mostEdited) {
    body = html`<form onSubmit=${submit}><label>Data, in the place of version ${base.version}<textarea name="data" rows="14" spellcheck=${false} value=${text}
        onInput=${(e) => change(e.target.value)}></textarea></label>
      ${size > mostEdited && html`<p class="note lost">${bytes(`${size}`)} are too many: a page can send ${bytes(`${mostEdited}`)}.</p>`}
      <${Reason} value=${reason}/>${error && html`<div class="problem" role="alert"><b>${error.message}</b></div>`}
      <div class="buttons">${cancel}<button class="btn main" disabled=${busy || size > mostEdited}>${busy ? 'Asking the server' : `Replace version ${base.version}`}</button></div></form>`;
  }
  return html`<dialog ref=${dialog} class="edit" aria-labelledby="edit-title" onClose=${done}><h2 id="edit-title">Edit <${Name} bytes=${name}/></h2>
    <p>Programs that watch <${Text} of=${path}/> get the new data at once. If somebody else changes it first, nothing is saved.</p>${body}</dialog>`;
}
