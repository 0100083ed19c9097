/** The page where nobody is signed in; it also adds an account, and takes the password of one that was signed out. */
import { computed, defineComponent, reactive, ref } from 'vue';
import { ApiError, ConnectionError } from '../sdk/src/errors.ts';
import { accounts, current, signIn } from './state/accounts.ts';
import { brand } from './state/brand.ts';

/** An account is signed in to, and another one is open. */
export const isSigningIn = ref(false);

export const SignIn = defineComponent(() => {
  const isOver = current.value?.live.state === 'stopped';
  const form = reactive({
    address: isOver ? (current.value?.address ?? '') : '',
    password: '',
    stay: current.value?.session.login.slot !== undefined,
  });
  const error = ref<string>();
  const isBusy = ref(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    error.value = undefined;
    try {
      await signIn(form.address, form.password, form.stay);
      isSigningIn.value = false;
    } catch (failure) {
      error.value = explain(failure);
    } finally {
      isBusy.value = false;
    }
  };
  const canCancel = computed(() => accounts.value.length > 0);
  return () => (
    <main class="sign-in">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <h1>{brand.name}</h1>
        <p class="soft">Sign in with the address and password of your mailbox.</p>
        <Field form={form} name="address" label="Address" type="email" autocomplete="username" />
        <Field
          form={form}
          name="password"
          label="Password"
          type="password"
          autocomplete="current-password"
        />
        <label class="choice">
          <input
            type="checkbox"
            checked={form.stay}
            onChange={(event) => {
              form.stay = (event.target as HTMLInputElement).checked;
            }}
          />
          <span>
            Stay signed in
            <span class="hint">and keep a copy of the mail on this device, to read it offline</span>
          </span>
        </label>
        {error.value && (
          <p class="notice bad" role="alert">
            {error.value}
          </p>
        )}
        <button type="submit" class="main" disabled={isBusy.value}>
          {isBusy.value ? 'Signing in…' : 'Sign in'}
        </button>
        {canCancel.value && (
          <button
            type="button"
            class="link"
            onClick={() => {
              isSigningIn.value = false;
            }}
          >
            Cancel
          </button>
        )}
      </form>
    </main>
  );
});

interface FieldProps {
  readonly form: { address: string; password: string };
  readonly name: 'address' | 'password';
  readonly label: string;
  readonly type: string;
  readonly autocomplete: string;
}

function Field({ form, name, label, type, autocomplete }: FieldProps) {
  return (
    <div class="field">
      <label for={name}>{label}</label>
      <input
        id={name}
        name={name}
        type={type}
        required
        autocomplete={autocomplete}
        autofocus={name === 'address'}
        maxlength="1024"
        value={form[name]}
        onInput={(event) => {
          form[name] = (event.target as HTMLInputElement).value;
        }}
      />
    </div>
  );
}

function explain(failure: unknown): string {
  if (failure instanceof ConnectionError) return 'The server cannot be reached. Try again.';
  if (!(failure instanceof ApiError)) return String(failure);
  if (failure.status === 429) {
    return `Too many attempts: try again in ${failure.retryAfter ?? 60} seconds.`;
  }
  return failure.code === 'unauthorized'
    ? 'The address or the password is wrong.'
    : failure.message;
}
