/** The page where nobody is signed in; it also adds an account, and takes the password of one that was signed out. */
import { defineComponent, ref } from 'vue';
import { ApiError, ConnectionError } from '../sdk/src/errors.ts';
import { accounts, current, signIn } from './state/accounts.ts';
import { brand } from './state/brand.ts';
import { Button } from './ui/button.tsx';
import { reasonOf } from './ui/format.ts';
import { Failure } from './ui/loaded.tsx';
import { sets } from './ui/sets.ts';

/** An account is signed in to, and another one is open. */
export const isSigningIn = ref(false);

const close = sets(isSigningIn, false);

export const SignIn = defineComponent(() => {
  const over = current.value?.live.state === 'stopped' ? current.value : undefined;
  const error = ref<string>();
  const isBusy = ref(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy.value) return;
    const form = new FormData(event.target as HTMLFormElement);
    isBusy.value = true;
    error.value = undefined;
    try {
      await signIn(String(form.get('address')), String(form.get('password')), form.has('stay'));
      close();
    } catch (failure) {
      error.value = explain(failure);
    } finally {
      isBusy.value = false;
    }
  };
  return () => (
    <main class="sign-in">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <h1>{brand.name}</h1>
        <p class="soft">Sign in with the address and password of your mailbox.</p>
        <label class="field">
          Address
          <input
            name="address"
            type="email"
            required
            autocomplete="username"
            autofocus
            maxlength="1024"
            defaultValue={over?.address}
          />
        </label>
        <label class="field">
          Password
          <input
            name="password"
            type="password"
            required
            autocomplete="current-password"
            maxlength="1024"
          />
        </label>
        <label class="choice">
          <input name="stay" type="checkbox" checked={current.value?.login.remembered} />
          <span>
            Stay signed in
            <span class="hint">and keep a copy of the mail on this device, to read it offline</span>
          </span>
        </label>
        <Failure text={error.value} />
        <button type="submit" class="main" disabled={isBusy.value}>
          {isBusy.value ? 'Signing in…' : 'Sign in'}
        </button>
        {accounts.value.length > 0 && <Button class="link" label="Cancel" press={close} />}
      </form>
    </main>
  );
});

function explain(failure: unknown): string {
  if (failure instanceof ConnectionError) return 'The server cannot be reached. Try again.';
  if (!(failure instanceof ApiError)) return reasonOf(failure);
  if (failure.status === 429) {
    return `Too many attempts: try again in ${failure.retryAfter ?? 60} seconds.`;
  }
  return failure.code === 'unauthorized'
    ? 'The address or the password is wrong.'
    : failure.message;
}
