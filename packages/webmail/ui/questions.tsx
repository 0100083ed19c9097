/** Questions before something is done: `ask` shows one, `Questions` stands once in the page. */
import { ref, shallowRef } from 'vue';
import { Button } from './button.tsx';
import { component } from './component.ts';
import { Dialog } from './dialog.tsx';
import { reasonOf } from './format.ts';
import { Failure } from './loaded.tsx';

interface Question {
  readonly title: string;
  readonly text?: string;
  /** What the button says that does it. */
  readonly action: string;
  readonly isDangerous?: boolean;
  /** A text that goes with it. */
  readonly field?: {
    readonly label: string;
    readonly type?: 'datetime-local';
    readonly value?: string;
    readonly min?: string;
  };
  /** What it throws is shown, and the dialog stays. */
  readonly run: (text: string) => Promise<unknown>;
  /** It is not to be done. */
  readonly cancelled?: () => void;
}

const asked = shallowRef<Question>();

export function ask(question: Question): void {
  asked.value?.cancelled?.();
  asked.value = question;
}

/** Asks for a yes, for code that waits for the answer. */
export function confirm(title: string, action: string): Promise<boolean> {
  return new Promise((resolve) => {
    ask({ title, action, run: async () => resolve(true), cancelled: () => resolve(false) });
  });
}

export const Questions = () =>
  asked.value && <Asked key={asked.value.title} question={asked.value} />;

const Asked = component<{ question: Question }>(['question'], ({ question }) => {
  const { field } = question;
  const error = ref<string>();
  const isRunning = ref(false);
  const close = () => {
    if (asked.value === question) asked.value = undefined;
  };
  const cancel = () => {
    close();
    question.cancelled?.();
  };
  const run = async (event: Event) => {
    event.preventDefault();
    if (isRunning.value) return;
    isRunning.value = true;
    const text = new FormData(event.target as HTMLFormElement).get('text');
    try {
      await question.run(String(text ?? '').trim());
      close();
    } catch (failure) {
      error.value = reasonOf(failure);
    } finally {
      isRunning.value = false;
    }
  };
  return () => (
    <Dialog title={question.title} close={cancel}>
      <form onSubmit={(event) => void run(event)}>
        {question.text && <p>{question.text}</p>}
        {field && (
          <label class="field">
            {field.label}
            <input
              name="text"
              type={field.type}
              defaultValue={field.value}
              min={field.min}
              autofocus
              required
              maxlength="200"
            />
          </label>
        )}
        <Failure text={error.value} />
        <div class="buttons bar wrap">
          <Button class="plain" label="Cancel" press={cancel} />
          <button
            type="submit"
            class={question.isDangerous ? 'danger' : 'main'}
            autofocus={!field}
            disabled={isRunning.value}
          >
            {question.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
});
