/** Questions before something is changed: what will happen, to how many, and a way back. */
import {
  DialogContent,
  DialogDescription,
  DialogOverlay,
  DialogPortal,
  DialogRoot,
  DialogTitle,
} from 'reka-ui';
import { defineComponent, type FunctionalComponent, shallowRef, type VNodeChild } from 'vue';
import type { ApiError } from '../api/client.ts';
import { asApiError } from '../api/load.ts';
import { Failure } from './basics.tsx';

interface DialogProps {
  title: string;
  /** Called when the dialog is closed without an answer. */
  close: () => void;
}

/** A dialog that is there while it is rendered: focus stays within, Escape closes it. */
export const Dialog: FunctionalComponent<DialogProps> = ({ title, close }, { slots }) => (
  <DialogRoot open={true} onUpdate:open={(isOpen: boolean) => isOpen || close()}>
    {() => (
      <DialogPortal>
        {() => [
          <DialogOverlay class="overlay" />,
          <DialogContent class="dialog">
            {() => [
              <DialogTitle as="h2">{() => title}</DialogTitle>,
              <DialogDescription as="div" class="body">
                {() => slots.default?.()}
              </DialogDescription>,
            ]}
          </DialogContent>,
        ]}
      </DialogPortal>
    )}
  </DialogRoot>
);

export interface Question {
  readonly title: string;
  readonly text: () => VNodeChild;
  /** What the button says that does it. */
  readonly action: string;
  readonly isDangerous?: boolean;
  /** Has to be typed before the button works. */
  readonly typed?: string;
  /** Does it; what it throws is shown, and the dialog stays. */
  readonly run: () => Promise<void>;
}

/** The question that is asked now; one at a time. */
const asked = shallowRef<Question>();

/** Asks before something is done. */
export function ask(question: Question): void {
  asked.value = question;
}

/** Shows what `ask` asks; stands once in the page. */
export const Questions = defineComponent(() => {
  const typed = shallowRef('');
  const error = shallowRef<ApiError>();
  const isRunning = shallowRef(false);

  const close = () => {
    asked.value = undefined;
    typed.value = '';
    error.value = undefined;
  };
  const run = async (event: Event) => {
    event.preventDefault();
    const question = asked.value;
    if (!question || isRunning.value) return;
    isRunning.value = true;
    error.value = undefined;
    try {
      await question.run();
      // It may have asked the next question.
      if (asked.value === question) close();
    } catch (failure) {
      error.value = asApiError(failure);
    } finally {
      isRunning.value = false;
    }
  };

  return () => {
    const question = asked.value;
    if (!question) return null;
    const isReady = question.typed === undefined || typed.value.trim() === question.typed;
    return (
      <Dialog title={question.title} close={close}>
        {() => (
          <form onSubmit={(event) => void run(event)}>
            <div class="text">{question.text()}</div>
            {question.typed !== undefined && (
              <label class="field">
                <span>
                  Type <code>{question.typed}</code> to confirm
                </span>
                <input
                  value={typed.value}
                  autocomplete="off"
                  spellcheck={false}
                  onInput={(event) => {
                    typed.value = (event.target as HTMLInputElement).value;
                  }}
                />
              </label>
            )}
            <Failure error={error.value} />
            <div class="buttons">
              <button type="button" class="plain" onClick={close}>
                Cancel
              </button>
              <button
                type="submit"
                class={question.isDangerous ? 'danger' : 'main'}
                disabled={!isReady || isRunning.value}
              >
                {isRunning.value ? 'Working…' : question.action}
              </button>
            </div>
          </form>
        )}
      </Dialog>
    );
  };
});
