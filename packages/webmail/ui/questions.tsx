/** Questions before something is done: `ask` shows one, `Questions` stands once in the page. */
import { shallowRef } from 'vue';
import { Button } from './button.tsx';
import { component } from './component.ts';
import { Dialog } from './dialog.tsx';
import { Failure, useSubmit } from './loaded.tsx';

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
  const close = () => {
    if (asked.value === question) asked.value = undefined;
  };
  const cancel = () => {
    close();
    question.cancelled?.();
  };
  const { error, isBusy, submit } = useSubmit(async (form) => {
    await question.run(String(form.get('text') ?? '').trim());
    close();
  });
  return () => (
    <Dialog title={question.title} close={cancel}>
      <form onSubmit={submit}>
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
        <div class="bar wrap last">
          <Button class="plain" label="Cancel" press={cancel} />
          <button
            type="submit"
            class={question.isDangerous ? 'danger' : 'main'}
            autofocus={!field}
            disabled={isBusy.value}
          >
            {question.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
});
