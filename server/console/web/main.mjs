import { html, render, useEffect, useState } from './html.mjs';
import { sessionOfSiblings, signIn, useSession } from './api.mjs';
import { replace, useRoute } from './route.mjs';
import { beside, Frame, Heading, More } from './frame.mjs';
import { SignIn } from './signin.mjs';
import { Locks } from './locks.mjs';
import { Lock } from './lock.mjs';
import { Session, Sessions } from './sessions.mjs';
import { Timeline } from './timeline.mjs';
import { Cluster } from './cluster.mjs';
import { Empty } from './parts.mjs';

/** later makes a view that is loaded once it is shown. */
const later = (load) => function Later({ route }) {
  const [View, found] = useState();
  useEffect(() => { load().then((view) => found(() => view)); }, []);
  return View ? html`<${View} route=${route}/>` : null;
};

// views, as other tables whose keys come from the address, has no keys of Object, such as "constructor".
const views = { __proto__: null, locks: Locks, lock: Lock, sessions: Sessions, session: Session, timeline: Timeline,
  cluster: Cluster, more: More, config: later(() => import('./config.mjs').then((m) => m.Config)),
  limiters: later(() => import('./limiters.mjs').then((m) => m.Limiters)),
  limiter: later(() => import('./limiters.mjs').then((m) => m.Limiter)),
  slow: later(() => import('./slow.mjs').then((m) => m.Slow)),
  rights: later(() => import('./rights.mjs').then((m) => m.Rights)),
  standin: later(() => import('./standin.mjs').then((m) => m.StandIn)) };

const Unknown = () => html`<${Heading} title="No such page"/><${Empty} title="The address names no view of the console.">
  <p>Go to the <a href="#/locks">locks</a>.</p></${Empty}>`;

// keyOfLink takes the one-time key out of the address, so that it stays in no history.
function keyOfLink() {
  const found = /^#key=(.+)$/.exec(location.hash);
  if (found) replace('#/locks');
  return found?.[1];
}

function App() {
  const session = useSession();
  const route = useRoute();
  const [state, setState] = useState({ ready: false });
  const enter = async () => {
    const key = keyOfLink();
    try {
      if (key) await signIn({ key });
      else await sessionOfSiblings();
      setState({ ready: true });
    } catch (error) {
      setState({ ready: true, error });
    }
  };
  useEffect(() => {
    enter();
    addEventListener('hashchange', () => { if (location.hash.startsWith('#key=')) enter(); });
  }, []);
  if (!state.ready) return null;
  if (!session) return html`<${SignIn} error=${state.error}/>`;
  const View = views[route.view] ?? Unknown;
  const place = beside.has(route.view) ? '' : `${route.path}/${route.last.join()}`;
  return html`<${Frame} route=${route}><${View} key=${route.view + place} route=${route}/></${Frame}>`;
}

render(html`<${App}/>`, document.querySelector('#app'));
