// Acts on locks and sessions. Each one describes its consequences, wants a reason, and sends the order id that the page showed,
// so that the server refuses it if the lock has changed since.
import { html, useLayoutEffect, useRef, useState } from './html.mjs';
import { call } from './api.mjs';
import { refresh } from './polls.mjs';
import { bytesOf, Name, Text } from './name.mjs';
import { big, many, roughly, small } from './format.mjs';
import { Title } from './parts.mjs';

export const Reason = ({ value = '' }) => html`<label>Reason, which goes into the audit log<input name="reason" defaultValue=${value} required maxlength="128" autocomplete="off"
  pattern=".*\\S.*" title="Some words, such as a ticket"/></label>`;

/** Act asks for a reason and acts. Its children describe the consequences. */
export function Act({ title, button, method, request, done, children }) {
  const dialog = useRef();
  const [error, setError] = useState();
  const [busy, setBusy] = useState(false);
  const [frozen] = useState({ request, children }); // the act does the thing that the text promises, whatever changes meanwhile
  useLayoutEffect(() => { dialog.current.showModal(); }, []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await call(method, { ...frozen.request, reason: new FormData(event.target).get('reason') });
      refresh();
      done();
    } catch (refusal) {
      setError(refusal);
      setBusy(false);
    }
  };
  return html`<dialog ref=${dialog} aria-labelledby="act-title" onClose=${done}><form onSubmit=${submit}><h2 id="act-title">
    ${title}</h2>
    ${frozen.children}
    <${Reason}/>
    ${error && html`<div class="problem" role="alert"><b>${error.message}</b>
      ${error.status === 412 && ' Close this, and look at what it is now.'}</div>`}
    <div class="buttons"><button type="button" class="btn" onClick=${() => dialog.current.close()}>Cancel</button>
      <button class="btn bad" disabled=${busy}>${busy ? 'Asking the server' : button}</button></div></form></dialog>`;
}

const lives = (session) => (session && !session.attached
  ? html`<p>Its client is away. One that comes back believes until then that it holds its locks.</p>`
  : html`<p>Its client is notified at once, unless it is cut off: then it believes that it holds its locks for up to
      ${session ? ` ${roughly(small(session.timeoutMillis))}` : ' its session timeout'}.</p>`);

/** EndSession ends the session of a lock's holder, as seen: order id and session. */
export function EndSession({ semaphore, link, session, next, done }) {
  const request = {
    path: semaphore.path, session: link.session, semaphore: semaphore.id, orderId: link.orderId, attachment: session?.attachment,
  };
  const who = html`<b><${Title} of=${session} id=${link.session}/></b>`;
  const lock = html`<b><${Name} bytes=${bytesOf(semaphore.name)}/></b>`;
  const waiter = semaphore.waiters?.[0];
  const enough = waiter && big(semaphore.limit) - big(semaphore.count) + big(link.count) >= big(waiter.count);
  const first = waiter && html`<b><${Title} of=${next} id=${waiter.session}/></b>`;
  return html`<${Act} title="End this session?" button="End session" method="Inspect/EndSession" request=${request} done=${done}>
    <p>${who} loses ${lock} and whatever else its session #${link.session} holds.
      ${' '}${!waiter ? 'Nobody waits for the lock.' : enough ? html`${first} gets the lock at once.` : html`${first} is next, and still has to wait.`}</p>
    ${lives(session)}</${Act}>`;
}

/** DeleteLock deletes a semaphore that is neither held nor awaited. */
export function DeleteLock({ semaphore, done }) {
  const request = { path: semaphore.path, id: semaphore.id, ownerOrderId: '0' };
  return html`<${Act} title="Delete this semaphore?" button="Delete" method="Inspect/DeleteSemaphore" request=${request} done=${done}>
    <p><b><${Name} bytes=${bytesOf(semaphore.name)}/></b> in <b><${Text} of=${semaphore.path}/>
      </b> and its data go for good. Programs that
      expect it get NOT_FOUND until it is made again. If somebody has taken it meanwhile, the server refuses this.</p>
        </${Act}>`;
}

/** EndOneSession ends a session as seen: the way in which its client has it. */
export function EndOneSession({ session, done }) {
  const request = { path: session.path, session: session.id, attachment: session.attachment };
  const held = session.owned ?? [];
  return html`<${Act} title="End this session?" button="End session" method="Inspect/EndSession" request=${request} done=${done}>
    <p><b><${Title} of=${session}/>
      </b> loses ${held.length === 0 ? 'nothing: it holds no lock.' : html`${many(held.length, 'lock')}:
      ${held.slice(0, 3).map((l, i) => html`${i > 0 && ', '}<b><${Name} bytes=${bytesOf(l.name)}/>
        </b>`)}${held.length > 3 && ' and others'}.
      They go to the sessions that wait for them.`}</p>${lives(session)}</${Act}>`;
}

/** HandOver makes another server the leader, if the term is still the one that was shown. */
export function HandOver({ status, member, done }) {
  const request = { to: member.id, term: status.term };
  return html`<${Act} title="Hand over the leadership?" button="Hand over" method="Cluster/TransferLeader" request=${request} done=${done}>
    <p>Server <b><${Text} of=${member.name || member.id}/>
      </b> becomes the leader. Requests wait for a moment while it takes over; sessions and
      locks stay as they are.</p></${Act}>`;
}
