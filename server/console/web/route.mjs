// The place of a view in the address: #/locks?by=held, #/lock/local/app/nightly-report. It is all in the fragment, so no log
// and no Referer header ever has a name.
import { useState, useEffect } from './html.mjs';
import { bytesOfText, fromURL, textFromURL, urlForm, urlPath, urlText } from './name.mjs';

function parse() {
  const [place, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [view, ...parts] = place.split('/');
  const settings = {};
  for (const pair of query.split('&').filter(Boolean)) {
    const [name, value = ''] = pair.split('=');
    settings[name] = textFromURL(value);
  }
  const last = parts.pop() ?? '';
  return { view: view || 'locks', path: parts.map((p) => `/${textFromURL(p)}`).join(''), last: fromURL(last), settings };
}

export function useRoute() {
  const [route, changed] = useState(parse);
  useEffect(() => {
    const notify = () => changed(parse());
    addEventListener('hashchange', notify);
    return () => removeEventListener('hashchange', notify);
  }, []);
  return route;
}

// withSettings returns the present view's address with other settings; empty ones are left out.
function withSettings(settings) {
  const pairs = Object.entries({ ...parse().settings, ...settings }).filter(([, value]) => value);
  const query = pairs.map(([name, value]) => `${name}=${urlText(value)}`).join('&');
  return location.hash.replace(/\?.*/, '').replace(/^#?\/?$/, '#/locks') + (query && `?${query}`);
}

/** replace replaces the address without an entry in the history. */
export function replace(hash) {
  history.replaceState(null, '', location.pathname + hash);
  dispatchEvent(new HashChangeEvent('hashchange'));
}

/** setSettings changes settings; they follow each key press in a search. */
export const setSettings = (settings) => replace(withSettings(settings));

export const viewURL = (view, path, name) => `#/${view}${urlPath(path)}/${urlForm(name)}`;
export const lockURL = (path, name) => viewURL('lock', path, name);
export const sessionURL = (path, id) => `#/session${urlPath(path)}/${urlForm(bytesOfText(id))}`;
export const rightsURL = (path) => `#/rights${urlPath(path)}`;
export const nodeURL = (path) => `#/locks?find=${urlText(path)}`;
