/** Questions before something is done: `ask` shows one, `Questions` stands once in the page. */
import { defineComponent, ref, shallowRef } from 'vue';
import { Dialog } from './dialog.tsx';

interface Question {
  readonly title: string;
  readonly text?: string;
  /** What the button says that does it. */
  readonly action: string;
  readonly isDangerous?: boolean;
  /** A text that goes with it. */
  readonly field?: { readonly label: string; readonly value?: string };
  /** What it throws is shown, and the dialog stays. */
  readonly run: (text: string) => Promise<void>;
}

const asked = shallowRef<Question>();

export function ask(question: Question): void {
  asked.value = question;
}

export const Questions = defineComponent(() => () => {
  const question = asked.value;
  return question && <Asked key={question.title} question={question} />;
});

const Asked = defineComponent(
  ({ question }: { question: Question }) => {
    const text = ref(question.field?.value ?? '');
    const error = ref<string>();
    const isRunning = ref(false);
    const close = () => {
      if (asked.value === question) asked.value = undefined;
    };
    const run = async (event: Event) => {
      event.preventDefault();
      if (isRunning.value) return;
      isRunning.value = true;
      try {
        await question.run(text.value.trim());
        close();
      } catch (failure) {
        error.value = failure instanceof Error ? failure.message : String(failure);
      } finally {
        isRunning.value = false;
      }
    };
    return () => (
      <Dialog title={question.title} close={close}>
        <form onSubmit={(event) => void run(event)}>
          {question.text && <p>{question.text}</p>}
          {question.field && (
            <div class="field">
              <label for="question">{question.field.label}</label>
              <input
                id="question"
                value={text.value}
                onInput={(event) => {
                  text.value = (event.target as HTMLInputElement).value;
                }}
                autofocus
                required
                maxlength="200"
              />
            </div>
          )}
          {error.value && (
            <p class="notice bad" role="alert">
              {error.value}
            </p>
          )}
          <div class="buttons">
            <button type="button" class="plain" onClick={close}>
              Cancel
            </button>
            <button
              type="submit"
              class={question.isDangerous ? 'danger' : 'main'}
              autofocus={!question.field}
              disabled={isRunning.value}
            >
              {question.action}
            </button>
          </div>
        </form>
      </Dialog>
    );
  },
  { props: ['question'] },
);
