/** Short messages that say what was done, with a way back; and what only a screen reader hears. */
import { ref, shallowRef, Teleport } from 'vue';
import { Button, Tool } from './button.tsx';
import { topLayer } from './dialog.tsx';
import { reasonOf } from './format.ts';

interface ToastOptions {
  readonly tone?: 'done' | 'failed';
  /** What can be done about it: undo, try again. */
  readonly action?: { readonly label: string; readonly run: () => void } | undefined;
  /** Milliseconds until it goes; Infinity stays until it is closed. */
  readonly forMs?: number;
}

interface Toast extends ToastOptions {
  readonly id: number;
  readonly text: string;
}

const SHOWN_MS = 8000;
const SHOWN_AT_ONCE = 3;

const toasts = shallowRef<readonly Toast[]>([]);
/** What the live region says; the same text twice is said twice. */
const spoken = ref('');
let lastId = 0;

/** Says something that a screen reader alone needs: the page shows it already. */
export function announce(text: string): void {
  // A text that does not change is not read again.
  spoken.value = spoken.value === text ? `${text}\u00a0` : text;
}

/** @returns takes it away */
export function say(text: string, options: ToastOptions = {}): () => void {
  lastId += 1;
  const id = lastId;
  toasts.value = [...toasts.value, { ...options, id, text }].slice(-SHOWN_AT_ONCE);
  announce(options.action ? `${text}. ${options.action.label}: z` : text);
  const { forMs = SHOWN_MS } = options;
  if (Number.isFinite(forMs)) setTimeout(drop, forMs, id);
  return () => drop(id);
}

/** Says that something failed, with its reason. */
export function sayFailure(what: string, error: unknown): void {
  say(`${what}: ${reasonOf(error)}`, { tone: 'failed', forMs: 15_000 });
}

/** Does what the newest message offers: the key `z`. */
export function runLastAction(): void {
  const toast = toasts.value.findLast(({ action }) => action);
  if (toast) run(toast);
  else announce('Nothing to undo');
}

function run(toast: Toast): void {
  drop(toast.id);
  toast.action?.run();
}

function drop(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Stands once in the page, in the dialog that lies over it; the one live region. */
export const Toasts = () => (
  <Teleport to={topLayer.value}>
    <section class="toasts" aria-label="Messages of the webmail">
      <ul>
        {/* The newest on top: where one goes, those below stay under the pointer. */}
        {toasts.value.toReversed().map((toast) => (
          <li key={toast.id} class={['toast bar', toast.tone]}>
            <p class="grow">{toast.text}</p>
            {toast.action && (
              <Button class="link" label={toast.action.label} press={() => run(toast)} />
            )}
            <Tool icon="close" label="Close the message" press={() => drop(toast.id)} />
          </li>
        ))}
      </ul>
      <p class="unseen" role="status">
        {spoken.value}
      </p>
    </section>
  </Teleport>
);
