// One question for all tabs of a browser: which of the views that they show has changed. A visible tab that has the Web Lock
// asks it, and the server answers once there is a change. Each tab makes its own calls then, and it goes on making them where
// nobody asks: the question only saves calls.
import { currentSession, send } from './api.mjs';

const most = 8; // views of one question
const gather = 50; // milliseconds in which changes of the views come together
const patience = 35000; // of a question, which the server answers after 20 s
const channel = new BroadcastChannel('coordd-live');
const self = `${Math.random()}`;

export class Live {
  known = new Map(); // the quiet views by tab, where this tab asks
  asked = new Set();
  said = '[]';
  announcing = 0;
  timer = 0;
  leads = false;
  failures = 0;
  /** @type {AbortController | undefined} */
  question = undefined;
  leave = undefined;
  user = undefined;

  /** views returns the quiet views of this tab, changed is called with the ids of views, covered when others are asked about. */
  constructor(tab) {
    this.tab = tab;
    channel.onmessage = ({ data }) => { if (data.user === this.user) this.hear(data); };
  }

  notify(message) {
    channel.postMessage({ user: this.user, ...message });
    this.hear(message);
  }

  hear({ from, views, asked, changed, all }) {
    if (all && !this.leads) this.announce(true);
    if (asked) {
      this.asked = new Set(asked);
      this.tab.covered();
    }
    if (changed?.length) {
      this.said = ''; // the one that asks has forgotten them
      this.tab.changed(changed);
    }
    if (views && this.leads) {
      if (views.length) this.known.set(from, views);
      else this.known.delete(from);
      this.ask();
    }
  }

  /** covers reports whether a question is under way whether a view is another than that of a version. */
  covers(id, version) {
    return this.asked.has(version + id);
  }

  /** announce describes the views of this tab to the one that asks. */
  announce(again = false) {
    if (again) this.said = '';
    this.announcing ||= setTimeout(() => {
      this.announcing = 0;
      const views = document.hidden || !currentSession() ? [] : this.tab.views();
      const said = JSON.stringify(views);
      if (said === this.said) return;
      this.said = said;
      this.notify({ from: self, views });
    }, gather);
  }

  /** restart lets this tab ask if it is visible, someone is signed in, and no other tab does. */
  restart() {
    this.leave?.();
    this.user = currentSession()?.user;
    this.announce(true);
    if (!navigator.locks || document.hidden || this.user === undefined) return;
    const given = new AbortController();
    const over = new Promise((leave) => {
      this.leave = () => {
        this.leave = undefined;
        given.abort();
        leave();
      };
    });
    navigator.locks.request(`coordd-live ${this.user}`, { signal: given.signal }, async () => {
      this.leads = true;
      this.notify({ all: true });
      this.announce(true);
      await over;
      this.leads = false;
      this.known.clear();
      this.question?.abort();
      this.notify({ asked: [] });
    }).catch(() => {}); // this tab has not waited until it was its turn
  }

  /** ask asks the question, unless it is under way already and about all that is known. */
  ask() {
    const views = new Map([...this.known.values()].flat().map((v) => [v.have + v.id, v]));
    const chosen = [...views].sort((a, b) => a[1].everyMillis - b[1].everyMillis).slice(0, most);
    if (chosen.length === 0 || (this.question && chosen.every(([key]) => this.asked.has(key)))) return;
    this.question?.abort();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.put(chosen), this.failures ? Math.min(30000, 500 * 2 ** this.failures) : 0);
  }

  async put(chosen) {
    if (!this.leads) return;
    const question = new AbortController();
    this.question = question;
    this.notify({ asked: chosen.map(([key]) => key) });
    let changed = [];
    try {
      const { answer } = await send('POST', 'live', { views: chosen.map(([, { id, ...view }]) => view) }, { patience, signal: question.signal });
      changed = answer.changed.map((i) => chosen[i][1].id);
      this.failures = 0;
    } catch {
      if (question.signal.aborted) return; // by another one
      this.failures++;
    }
    this.question = undefined;
    for (const [tab, views] of this.known) this.known.set(tab, views.filter((v) => !changed.includes(v.id)));
    this.notify({ asked: [], changed });
    this.ask();
  }
}
