// What the page asks its server: the session of the person who looks, and calls. Module polls repeats them.
import { useState, useEffect } from './html.mjs';

/** Refusal is the error of a call: its status is 0 if no server answered. */
export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// The session. It is in this tab's storage alone; other tabs of the same server ask for it, and get it from memory.
const stored = 'coordd-session';
const tabs = new BroadcastChannel('coordd');
let session = JSON.parse(sessionStorage.getItem(stored) ?? 'null');
const listeners = new Set();

function setSession(next) {
  session = next;
  if (next) sessionStorage.setItem(stored, JSON.stringify(next));
  else sessionStorage.removeItem(stored);
  for (const notify of listeners) notify();
}

export const currentSession = () => session;
/** onSession has a function called after each sign-in and sign-out. */
export const onSession = (notify) => listeners.add(notify);

tabs.onmessage = ({ data }) => {
  if (data.ask && session) tabs.postMessage({ session });
  if (data.session && !session) setSession(data.session);
  if (data.ended && session?.token === data.ended) setSession(null);
};

/** sessionOfSiblings waits a moment for the session of another tab. */
export async function sessionOfSiblings() {
  if (session) return;
  tabs.postMessage({ ask: true });
  for (let i = 0; i < 15 && !session; i++) await new Promise((done) => { setTimeout(done, 10); });
}

export function useSession() {
  const [, changed] = useState(0);
  useEffect(() => {
    const notify = () => changed((n) => n + 1);
    listeners.add(notify);
    return () => listeners.delete(notify);
  }, []);
  return session;
}

/** signIn takes a key of a link, or a user and a password. */
export async function signIn(credentials) {
  const { answer } = await send('POST', 'session', credentials);
  setSession(answer);
  tabs.postMessage({ session: answer });
}

export async function signOut() {
  const { token } = session;
  await send('DELETE', 'session').catch(() => {});
  tabs.postMessage({ ended: token });
  setSession(null);
}

// The connection, for the frame: when a server answered last, since when none does, and its clock.
export const connection = { at: 0, lostSince: 0, next: 0, ahead: 0, standIn: false };
/** now is the time by the clock of the server, which stamped what the page shows. */
export const now = () => Date.now() + connection.ahead;

function answered(response, asked) {
  const took = Date.now() - asked;
  connection.at = Date.now();
  connection.lostSince = 0;
  connection.standIn = response.headers.has('X-Coordd-Standin');
  const stamp = response.headers.get('Date'); // to the second, so smaller differences do not matter
  if (!stamp || took > 1000) return;
  const ahead = Date.parse(stamp) + 500 - Date.now() + took / 2;
  connection.ahead = Math.abs(ahead) > 1500 ? ahead : 0;
}

/**
 * send makes a request. It gives up after 15 s; one that takes longer has a signal, and proves nothing about the connection.
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @param {{ have?: string, patience?: number, signal?: AbortSignal }} [options]
 */
export async function send(method, path, body, options = {}) {
  const { have, patience = 15000, signal } = options;
  const headers = { 'Content-Type': 'application/json' };
  if (session) headers.Authorization = `Bearer ${session.token}`;
  if (have) headers['X-Coordd-Have'] = have;
  const asked = Date.now();
  let response;
  let text;
  try {
    response = await fetch(`api/${path}`, {
      method, headers, body: body && JSON.stringify(body), cache: 'no-store', credentials: 'omit', redirect: 'error',
      signal: AbortSignal.any([AbortSignal.timeout(patience), ...(signal ? [signal] : [])]),
    });
    text = await response.text();
  } catch {
    if (!signal) connection.lostSince ||= Date.now();
    throw new Refusal(0, 'OFFLINE', 'The server does not answer.');
  }
  answered(response, asked);
  if (response.status === 304) return { same: true };
  let answer = {};
  try {
    answer = JSON.parse(text || '{}');
  } catch {
    answer = { message: text.trim() };
  }
  if (!response.ok) {
    if (response.status === 401 && session && path !== 'session') setSession(null);
    throw new Refusal(response.status, answer.code ?? '', answer.message || `The server answered ${response.status}.`);
  }
  return { answer, version: response.headers.get('X-Coordd-Version') };
}

/** call calls a method, such as "Inspect/List", once. */
export async function call(method, body) {
  return (await send('POST', `coordd.admin.v1.${method}`, body ?? {})).answer;
}

/** useClock renders a view again each period, for times that run. */
export function useClock(every = 1000) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) tick((n) => n + 1); }, every);
    return () => clearInterval(timer);
  }, [every]);
  return now();
}
