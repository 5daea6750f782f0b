/** Where one signs in with a key. */

import { signInWithKey } from '../session.mjs';
import { html, useState } from '../view.mjs';
import { Text } from '../parts/text.mjs';

export function SignInPage() {
  const [key, setKey] = useState('');
  const [wrong, setWrong] = useState('');
  const signIn = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setWrong('');
    await signInWithKey(key.trim()).catch((error) => setWrong(error.message));
  };
  return html`<main class="sign-in">
    <h1>awaken</h1>
    <p class="sub">Sign in with a key of this server, or open the link that <code>awaken serve</code> has printed.</p>
    <form onSubmit=${signIn}>
      <label>Key<input type="password" autocomplete="off" value=${key} placeholder="awk_…"
        onInput=${(/** @type {any} */ event) => setKey(event.target.value)} /></label>
      ${wrong && html`<p class="wrong" role="alert"><${Text} of=${wrong} /></p>`}
      <button class="main" disabled=${!key.trim()}>Sign in</button>
    </form>
  </main>`;
}
