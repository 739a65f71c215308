// Events of the log in words.
import { html } from './html.mjs';
import { lockURL, sessionURL } from './route.mjs';
import { bytesOf, Name, Text } from './name.mjs';
import { big, bytes, capital, count, inWords, many, roughly, small } from './format.mjs';

/** classes group the kinds of events by what a reader looks for; the first one that has a kind is its class. */
export const classes = [
  { key: 'lost', title: 'Lost', kinds: ['SESSION_EXPIRED', 'SESSION_ENDED', 'LOCK_LOST', 'NODE_DROPPED'] },
  { key: 'acts', title: 'Acts', kinds: ['ADMINISTERED', 'SEMAPHORE_DELETED'] },
  { key: 'data', title: 'Changes', kinds: ['SEMAPHORE_CREATED', 'DATA_CHANGED'] },
  { key: 'other', title: 'Other', kinds: ['SESSION_STOPPED', 'SESSION_STARTED', 'SESSION_ATTACHED', 'SESSION_DETACHED', 'LOCK_GRANTED',
    'LOCK_AWAITED', 'WAIT_ENDED', 'LEADER', 'GAP'] },
];
export const classOf = (event) => classes.find((c) => c.kinds.includes(event.kind)) ?? classes.at(-1);

const causes = {
  STREAM_ENDED: 'its client was gone', SERVER_LOST: 'the server of its client was lost', LEADER_CHANGED: 'its client did not come back to a new leader',
};

/** silence explains why a session expired. */
export const silence = (e) => `expired${e.silentMillis ? ` after ${roughly(small(e.silentMillis))} of silence` : ''}${causes[e.lost] ? `, ${causes[e.lost]}` : ''}`;

const Session = ({ e }) => (e.session ? html`<a href=${sessionURL(e.path ?? '', e.session)}>${e.description
  ? html`<${Text} of=${e.description}/>` : `session ${e.session}`}</a>` : '');
const Lock = ({ e }) => html`<a href=${lockURL(e.path ?? '', bytesOf(e.semaphore))}><${Name} bytes=${bytesOf(e.semaphore)}/>
  </a>`;
const User = ({ e, first }) => (e.user ? html`<${Text} of=${e.user}/>` : `${first ? 'An' : 'an'} administrator`);
const Reason = ({ e }) => (e.reason ? html`: “<${Text} of=${e.reason}/>”` : '');

/** Held names what a session lost. */
function Held({ e }) {
  const names = e.names ?? [];
  const total = big(e.held) + big(e.awaited);
  if (total === 0n) return '';
  const more = total - BigInt(names.length);
  return html`; it ${big(e.held) > 0n ? 'held' : 'waited for'} ${names.map((n, i) => html`${i > 0 && ', '}
    <a href=${lockURL(e.path ?? '', bytesOf(n))}><${Name} bytes=${bytesOf(n)}/>
      </a>`)}${more > 0n && ` and ${count(more)} more`}`;
}

const sentences = {
  SESSION_STARTED: (e) => html`<${Session} e=${e}/> started`,
  SESSION_ATTACHED: (e) => html`A client came back to <${Session} e=${e}/>`,
  SESSION_DETACHED: (e) => html`<${Session} e=${e}/> lost its client`,
  SESSION_STOPPED: (e) => html`<${Session} e=${e}/> was stopped by its client<${Held} e=${e}/>`,
  SESSION_EXPIRED: (e) => html`<${Session} e=${e}/> ${silence(e)}<${Held} e=${e}/>`,
  SESSION_ENDED: (e) => html`<${User} e=${e} first/> ended <${Session} e=${e}/><${Reason} e=${e}/><${Held} e=${e}/>`,
  LOCK_GRANTED: (e) => html`<${Session} e=${e}/> got <${Lock} e=${e}/>`,
  LOCK_AWAITED: (e) => html`<${Session} e=${e}/> waits for <${Lock} e=${e}/>`,
  LOCK_LOST: (e) => html`<${Session} e=${e}/> does not hold <${Lock} e=${e}/> any more`,
  WAIT_ENDED: (e) => html`<${Session} e=${e}/> stopped waiting for <${Lock} e=${e}/>`,
  SEMAPHORE_CREATED: (e) => html`<${Lock} e=${e}/> was made${e.session ? html` by <${Session} e=${e}/>` : ''}`,
  SEMAPHORE_DELETED: (e) => html`<${Lock} e=${e}/> was deleted${e.user ? html` by <${User} e=${e}/>` : ''}<${Reason} e=${e}/>`,
  DATA_CHANGED: (e) => html`The data of <${Lock} e=${e}/> changed, ${bytes(e.count)} after ${bytes(e.before)}`,
  NODE_DROPPED: (e) => html`<${User} e=${e} first/> dropped the node, with ${many(e.count ?? '0', 'session')} and ${many(e.before ?? '0', 'held lock')}`,
  ADMINISTERED: (e) => html`<${User} e=${e} first/>: <${Text} of=${e.act ?? ''}/> <b><${Text} of=${e.target || e.path || ''}/></b>
    <${Reason} e=${e}/>`,
  LEADER: (e) => (e.server ? html`Server <${Text} of=${e.server}/> leads, term ${e.term}` : 'No server leads'),
  GAP: (e) => (e.skipped ? `${many(e.skipped, 'event')} are missing here` : 'Events are missing here'),
};

// manyWords are of sums of many nodes or acts.
const manyWords = {
  SESSION_EXPIRED: ['session', 'expired'], SESSION_ENDED: ['session', 'ended by administrators'], LOCK_LOST: ['lock', 'lost'],
  SESSION_STOPPED: ['session', 'stopped by clients'], NODE_DROPPED: ['node', 'dropped'], ADMINISTERED: ['act', 'of administration'],
  SEMAPHORE_CREATED: ['lock', 'made'], SEMAPHORE_DELETED: ['lock', 'deleted'], DATA_CHANGED: ['change', 'of data'],
};

/** Sentence is an event in words. */
export function Sentence({ of: e }) {
  const words = manyWords[e.kind];
  if (words && e.sumsKind && !e.act && big(e.node) === 0n) return `${many(String(big(e.skipped) + 1n), words[0])} ${words[1]}, too many to keep each.`;
  const text = sentences[e.kind]?.(e) ?? e.kind;
  return html`${text}${e.skipped && e.kind !== 'GAP' ? html` <span class="soft">and ${many(e.skipped, 'more of this kind', 'more of this kind')}</span>` : ''}.`;
}

/** worst is the sentence above a list of events. */
export function worst(events, period) {
  const expired = events.filter((e) => e.kind === 'SESSION_EXPIRED');
  const ended = events.filter((e) => e.kind === 'SESSION_ENDED').length;
  const locks = expired.reduce((n, e) => n + big(e.held), 0n);
  if (expired.length === 0 && ended === 0) return html`<b>Nothing was lost ${period}.</b> Every lock was released by its holder.`;
  const from = new Set(expired.map((e) => e.client?.address?.replace(/(:\d+)?$/, '')).filter(Boolean));
  const place = expired.length > 1 && from.size === 1 ? `, all from ${[...from][0]}` : '';
  const end = `${capital(inWords(ended))} ${ended === 1 ? 'was' : 'were'} ended by an administrator.`;
  if (expired.length === 0) return html`<b>No session expired ${period}.</b> ${end}`;
  return html`<b>${capital(inWords(expired.length))} ${expired.length === 1 ? 'session' : 'sessions'} expired ${period}${place}</b>,
    with ${count(locks)} held ${locks === 1n ? 'lock' : 'locks'}. ${ended > 0 && end}`;
}
