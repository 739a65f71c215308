import { html, render, useEffect, useState } from './html.mjs';
import { sessionOfSiblings, signIn, useSession } from './api.mjs';
import { replace, useRoute } from './route.mjs';
import { Frame, Heading } from './frame.mjs';
import { SignIn } from './signin.mjs';
import { Locks } from './locks.mjs';
import { Lock } from './lock.mjs';
import { Session, Sessions } from './sessions.mjs';
import { Timeline } from './timeline.mjs';
import { Cluster } from './cluster.mjs';
import { Empty } from './parts.mjs';

/** StandIn loads the view of stand-ins, which no other server has. */
function StandIn({ route }) {
  const [View, found] = useState();
  useEffect(() => { import('./standin.mjs').then((module) => found(() => module.StandIn)); }, []);
  return View ? html`<${View} route=${route}/>` : null;
}

// views, as other tables whose keys come from the address, has no keys of Object, such as "constructor".
const views = { __proto__: null, locks: Locks, lock: Lock, sessions: Sessions, session: Session, timeline: Timeline,
  cluster: Cluster, standin: StandIn };

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
  return html`<${Frame} route=${route}><${View} key=${`${route.view}${route.path}/${route.last.join()}`} route=${route}/>
    </${Frame}>`;
}

render(html`<${App}/>`, document.querySelector('#app'));
