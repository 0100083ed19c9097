/** Signing in with the API key; where the session ended, it leads back to the screen of before. */
import { defineComponent, onMounted, ref, shallowRef } from 'vue';
import { useRoute } from 'vue-router';
import { type ApiError, signIn } from '../api/client.ts';
import { asApiError } from '../api/load.ts';
import { Failure } from '../ui/basics.tsx';

export const SignIn = defineComponent(() => {
  const route = useRoute();
  const key = ref('');
  const error = shallowRef<ApiError>();
  const isRunning = ref(false);
  const field = ref<HTMLInputElement>();
  onMounted(() => field.value?.focus());

  const submit = async (event: Event) => {
    event.preventDefault();
    if (isRunning.value) return;
    isRunning.value = true;
    error.value = undefined;
    try {
      // The router leads on once there is a session.
      await signIn(key.value.trim());
    } catch (failure) {
      error.value = asApiError(failure);
      field.value?.focus();
    } finally {
      key.value = '';
      isRunning.value = false;
    }
  };

  return () => (
    <form class="sign-in" onSubmit={(event) => void submit(event)}>
      <h1>Console</h1>
      <p class="lead">For operators of this server. Sign in with an API key of an operator.</p>
      {route.query.next && !error.value && (
        <p class="notice" role="status">
          Sign in to return to your screen.
        </p>
      )}
      <Failure error={error.value} />
      <label class="field">
        <span>API key</span>
        <input
          ref={field}
          type="password"
          name="api-key"
          required
          autocomplete="off"
          spellcheck={false}
          value={key.value}
          onInput={(event) => {
            key.value = (event.target as HTMLInputElement).value;
          }}
        />
      </label>
      <button type="submit" class="main" disabled={isRunning.value}>
        {isRunning.value ? 'Signing in…' : 'Sign in'}
      </button>
      <p class="soft small">
        The key was shown at the first start; API_KEYS sets others, and operators make more. The
        browser does not keep it: a session of 12 hours takes its place.
      </p>
    </form>
  );
});
