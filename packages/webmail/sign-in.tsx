/**
 * The page where nobody is signed in. As a dialog it adds an account, or takes the password of one that was signed out:
 * what is written and read stays as it is below.
 */
import { defineComponent } from 'vue';
import { ApiError, ConnectionError } from '../sdk/src/errors.ts';
import { current, signIn } from './state/accounts.ts';
import { brand } from './state/brand.ts';
import { closeOverlay } from './state/overlay.ts';
import { Dialog } from './ui/dialog.tsx';
import { reasonOf } from './ui/format.ts';
import { Failure, useSubmit } from './ui/loaded.tsx';

export const SignInPage = () => (
  <main class="sign-in">
    <div class="card">
      <h1>{brand.name}</h1>
      <SignInForm />
    </div>
  </main>
);

export const SignInDialog = () => (
  <Dialog title="Sign in" close={closeOverlay}>
    <SignInForm />
  </Dialog>
);

const SignInForm = defineComponent(() => {
  const over = current.value?.live.state === 'stopped' ? current.value : undefined;
  const { error, isBusy, submit } = useSubmit(async (form) => {
    await signIn(String(form.get('address')), String(form.get('password')), form.has('stay'));
    closeOverlay();
  }, explain);
  return () => (
    <form onSubmit={submit}>
      <p class="soft">Sign in with the address and password of your mailbox.</p>
      <label class="field">
        Address
        <input
          name="address"
          type="email"
          required
          autocomplete="username"
          autofocus={!over}
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
          autofocus={over !== undefined}
          autocomplete="current-password"
          maxlength="1024"
        />
      </label>
      <label class="choice">
        <input name="stay" type="checkbox" checked={current.value?.login.remembered} />
        <span>
          Stay signed in
          <span class="soft small">
            and keep a copy of the mail on this device, to read it offline
          </span>
        </span>
      </label>
      <Failure text={error.value} />
      <button type="submit" class="main" disabled={isBusy.value}>
        {isBusy.value ? 'Signing in…' : 'Sign in'}
      </button>
    </form>
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
