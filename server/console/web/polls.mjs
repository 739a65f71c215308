// Calls that are repeated while a view shows their answer. Views that ask the same share one, and its last answer outlives
// them for a while, so that going back shows something at once.
import { useEffect, useState } from './html.mjs';
import { connection, currentSession, onSession, send } from './api.mjs';
import { Live } from './live.mjs';

const polls = new Map();
const mostKept = 24;
const service = 'coordd.admin.v1.';
const slow = 15000; // milliseconds between the calls of a poll whose changes another question waits for
const mostChanges = 3; // calls, one after another, that each had another answer

class Poll {
  users = new Set();
  state = {};
  version = '';
  timer = 0;
  last = 0;
  pause = 0;
  busy = false;
  again = false;
  quiet = false;
  changes = 0;

  constructor(method, body) {
    this.method = method;
    this.body = body;
    this.id = method + JSON.stringify(body);
  }

  /**
   * turn calls. A poll is quiet unless it finds a change again and again, or none where it was called because there should be
   * one: only quiet ones are worth a question.
   */
  async turn(hinted = false) {
    clearTimeout(this.timer);
    if (this.busy) this.again ||= hinted;
    if (this.busy || this.users.size === 0 || document.hidden) return undefined;
    this.busy = true;
    try {
      const got = await send('POST', service + this.method, this.body, { have: this.version });
      this.changes = got.same || Date.now() - this.last > this.every() ? 0 : this.changes + 1;
      this.quiet = this.changes < mostChanges && !(got.same && hinted) && this.method !== 'Cluster/Status'; // it shows that the server is there
      if (!got.same) {
        this.version = got.version;
        this.state = { answer: got.answer, at: Date.now() };
      } else if (this.state.error) this.state = { ...this.state, error: undefined };
      this.pause = this.every();
    } catch (error) {
      this.quiet = false;
      this.state = { ...this.state, error };
      this.pause = Math.min(15000, Math.max(500, 2 * this.pause));
    }
    Object.assign(this, { busy: false, last: Date.now() });
    for (const user of this.users) user.notify();
    live.announce();
    if (!this.again) return this.schedule();
    this.again = false;
    return this.turn(true);
  }

  /** schedule plans the next call. */
  schedule() {
    clearTimeout(this.timer);
    if (this.busy || this.users.size === 0) return;
    const pause = (this.quiet && live.covers(this.id, this.version) ? slow : this.pause) * (0.9 + 0.2 * Math.random());
    if (connection.lostSince) connection.next = this.last + pause;
    this.timer = setTimeout(() => this.turn(), this.last + pause - Date.now());
  }

  every() {
    return Math.min(...Array.from(this.users, (u) => u.every), 60000);
  }
}

const live = new Live({
  views: () => [...polls.values()].filter((p) => p.quiet && p.users.size > 0).map((p) => (
    { id: p.id, method: `/${service}${p.method}`, request: p.body, have: p.version, everyMillis: p.every() > 500 ? p.every() : 250 })),
  changed: (ids) => {
    for (const poll of polls.values()) if (ids.includes(poll.id)) poll.turn(true);
  },
  covered: () => {
    for (const poll of polls.values()) if (poll.quiet) poll.schedule();
  },
});

onSession(() => {
  if (!currentSession()) polls.clear();
  live.restart();
});

export function refresh() {
  for (const poll of polls.values()) poll.turn();
}
document.addEventListener('visibilitychange', () => {
  refresh();
  live.restart();
});
addEventListener('online', refresh);
live.restart();

/** useLive returns { answer, at, error } of a method that is called again and again; without a method it does nothing. */
export function useLive(method, body, every = 1000) {
  const key = method ? method + JSON.stringify(body) : '';
  const [, changed] = useState(0);
  useEffect(() => {
    if (!key) return undefined;
    const poll = polls.get(key) ?? new Poll(method, body);
    polls.delete(key);
    polls.set(key, poll); // the newest last
    for (const [old, { users }] of polls) if (polls.size > mostKept && users.size === 0) polls.delete(old);
    const user = { every, notify: () => changed((n) => n + 1) };
    poll.users.add(user);
    poll.turn();
    return () => {
      poll.users.delete(user);
      if (poll.users.size === 0) clearTimeout(poll.timer);
      live.announce();
    };
  }, [key]);
  return polls.get(key)?.state ?? {};
}
