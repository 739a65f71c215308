import { html, useState } from './html.mjs';
import { signIn } from './api.mjs';
import { Heading, Mark } from './frame.mjs';

export function SignIn({ error: before }) {
  const [error, setError] = useState(before);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const { user, password } = Object.fromEntries(new FormData(event.target));
    setBusy(true);
    try {
      await signIn({ user, password });
    } catch (refusal) {
      setError(refusal);
      setBusy(false);
    }
  };
  return html`<main class="signin"><div class="brand"><${Mark}/>coordd</div><${Heading} title="Sign in"/>
    <p class="lede">See every lock, its queue and the sessions that hold it.</p>
    ${error && html`<div class="problem" role="alert"><b>${error.message}</b></div>`}
    <section class="card"><h2>With a link</h2>
      <p>Run this on the server’s machine, as the user that the server runs as, and open the link that it prints. It is good once, within
        five minutes.</p><pre class="data">coordd console</pre>
      <p class="soft">In a container: <code>docker exec NAME /coordd console</code></p></section>
    <form class="card" onSubmit=${submit}><h2>With a password</h2>
      <label>User<input name="user" autocomplete="username" required spellcheck=${false} autocapitalize="none"/></label>
      <label>Password<input name="password" type="password" autocomplete="current-password" required/></label>
      <button class="btn main" disabled=${busy}>${busy ? 'Signing in' : 'Sign in'}</button></form>
    <p class="faint">The session lives in this tab, for twelve hours at most. The page sets no cookie.</p></main>`;
}
