// Lists in the order of keys, which a server gives page by page. Pages near the screen are kept and asked for again; of the
// others only their tokens and lengths are.
import { useEffect, useMemo, useState } from './html.mjs';
import { call } from './api.mjs';
import { big } from './format.mjs';

const around = 8; // pages that are kept on both sides of the screen
const ahead = 512; // rows below the screen that are asked for

class Pages {
  pages = [];
  next = '';
  done = false;
  stopped = false;
  length = 0;
  busy = false;
  first = 0;
  last = 0;
  error = undefined;

  constructor(request, field, keep, notify) {
    this.request = request;
    this.field = field;
    this.keep = keep;
    this.notify = notify;
  }

  at(i) {
    const page = this.pages.find((p) => i >= p.start && i < p.start + p.length);
    return page?.rows?.[i - page.start];
  }

  askedAt(i) {
    return this.pages.find((p) => i >= p.start && i < p.start + p.length)?.asked ?? Date.now();
  }

  /** due returns the page to ask for now: one on the screen that is missing or old, or the next one. */
  due(every) {
    for (const page of this.pages) {
      const onScreen = page.start < this.last && page.start + page.length > this.first;
      if (onScreen && (!page.rows || Date.now() - page.asked > every)) return page;
    }
    return this.done || this.length > this.last + ahead ? undefined : { token: this.next, isNext: true };
  }

  async work(every) {
    if (this.busy || document.hidden) return;
    this.busy = true;
    for (let page = this.due(every); page && !this.stopped; page = this.due(every)) {
      try {
        this.take(page, await call('Inspect/List', { ...this.request, pageToken: page.token }));
        this.error = undefined;
      } catch (error) {
        this.error = error;
        page = undefined;
      }
      this.notify();
      if (!page) break;
    }
    this.busy = false;
  }

  take(page, answer) {
    const following = this.pages[this.pages.indexOf(page) + 1]?.head;
    let rows = answer[this.field] ?? [];
    if (this.pages.length > 0 && page !== this.pages[0] && rows[0]?.continued) rows = rows.slice(1);
    if (!page.isNext && following) { // rows that went have let others of the following page in
      const end = rows.findIndex((r) => r.path === following.path && big(r.id) >= big(following.id));
      if (end >= 0) rows = rows.slice(0, end);
    }
    if (this.keep) rows = rows.filter(this.keep);
    Object.assign(page, { rows, length: rows.length, head: rows[0] && { path: rows[0].path, id: rows[0].id }, asked: Date.now() });
    if (page.isNext) {
      page.isNext = false;
      this.pages.push(page);
      this.next = answer.nextPageToken ?? '';
      this.done = !this.next;
    }
    this.length = 0;
    for (const p of this.pages) {
      p.start = this.length;
      this.length += p.length;
    }
    const [low, high] = [this.first - around * 256, this.last + around * 256];
    for (const p of this.pages) if (p.start > high || p.start + p.length < low) p.rows = undefined;
  }
}

/** useAll returns the first rows of a request, about most of them, and asks for them again and again. */
export function useAll(request, field, most, every) {
  const [got, setGot] = useState({ rows: undefined, more: false, at: 0, unknown: [], error: undefined });
  useEffect(() => {
    let [stopped, timer] = [false, 0];
    const load = async () => {
      const rows = [];
      const unknown = new Set();
      let pageToken = '';
      try {
        do {
          const page = await call('Inspect/List', { ...request, pageToken });
          rows.push(...(page[field] ?? []).filter((r) => !r.continued));
          for (const why of page.unknown ?? []) unknown.add(why);
          pageToken = page.nextPageToken ?? '';
        } while (pageToken && rows.length < most && !stopped);
        if (!stopped) setGot({ rows, more: Boolean(pageToken), at: Date.now(), unknown: [...unknown], error: undefined });
      } catch (error) {
        if (!stopped) setGot((old) => ({ ...old, error }));
      }
      if (!stopped) timer = setTimeout(again, every);
    };
    const again = () => (document.hidden ? timer = setTimeout(again, every) : load());
    load();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [JSON.stringify(request)]);
  return got;
}

/**
 * usePages lists the rows of a request, which are in a field of the answers. keep, if it is given, selects among them, and
 * sameKeep names it.
 */
export function usePages(request, field, every = 2000, keep = undefined, sameKeep = '') {
  const [, changed] = useState(0);
  const key = JSON.stringify([request, sameKeep]);
  const pages = useMemo(() => new Pages(request, field, keep, () => changed((n) => n + 1)), [key]);
  useEffect(() => {
    pages.work(every);
    const timer = setInterval(() => pages.work(every), 500);
    return () => {
      pages.stopped = true;
      clearInterval(timer);
    };
  }, [pages]);
  const near = (first, last) => {
    Object.assign(pages, { first, last });
    pages.work(every);
  };
  return { pages, near };
}
