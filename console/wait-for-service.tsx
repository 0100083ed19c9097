/** What stands on a page that was loaded while the service is away: nobody knows yet whether somebody is signed in. */
import { createApp, shallowRef } from 'vue';
import { type ApiError, findSession } from './api/client.ts';
import { asApiError } from './api/load.ts';
import { Failure } from './ui/basics.tsx';

const EVERY_MS = 5_000;

/** Finds whether somebody is signed in, as soon as the service answers. */
export async function waitForService(place: string): Promise<void> {
  const error = shallowRef<ApiError>();
  let next = () => {};
  const page = createApp(() => (
    <main class="sign-in">
      <h1>Console</h1>
      <Failure error={error.value} retry={() => next()} />
      <p class="soft small">The page tries again every {EVERY_MS / 1000} seconds.</p>
    </main>
  ));
  for (;;) {
    const failure = await findSession().then(() => undefined, asApiError);
    // Where nobody is signed in, the router leads to the sign-in.
    if (!failure || failure.status === 401) break;
    if (!error.value) page.mount(place);
    error.value = failure;
    await new Promise<void>((resolve) => {
      next = resolve;
      setTimeout(resolve, EVERY_MS);
    });
  }
  if (error.value) page.unmount();
}
