/** Questions before something is changed: what will happen, to how many, and a way back. */
import {
  DialogContent,
  DialogDescription,
  DialogOverlay,
  DialogPortal,
  DialogRoot,
  DialogTitle,
} from 'reka-ui';
import { defineComponent, type FunctionalComponent, shallowRef, type VNodeChild, watch } from 'vue';
import type { ApiError } from '../api/client.ts';
import { asApiError } from '../api/load.ts';
import { Failure } from './basics.tsx';
import { say } from './messages.tsx';

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

interface DrawerProps extends DialogProps {
  /** Gives the focus to the link that opened it. */
  returnFocus: () => void;
}

/**
 * One thing beside its list, which stays usable: 560 px at the right, the whole screen on a phone. Escape closes
 * it, a press outside does not. Its address is the screen's matter: show it where the route has an id, and let `close` leave
 * that route.
 */
export const Drawer: FunctionalComponent<DrawerProps> = (
  { title, close, returnFocus },
  { slots },
) => (
  <DialogRoot open={true} modal={false} onUpdate:open={(isOpen: boolean) => isOpen || close()}>
    {() => (
      <DialogPortal>
        {() => (
          <DialogContent
            class="drawer"
            aria-describedby={undefined}
            onInteractOutside={(event: Event) => event.preventDefault()}
            onCloseAutoFocus={(event: Event) => {
              event.preventDefault();
              returnFocus();
            }}
          >
            {() => [
              <header>
                <DialogTitle as="h2">{() => title}</DialogTitle>
                <button type="button" class="plain" onClick={close}>
                  Close
                </button>
              </header>,
              slots.default?.(),
            ]}
          </DialogContent>
        )}
      </DialogPortal>
    )}
  </DialogRoot>
);

/** One of several ways to do it. */
export interface Choice {
  readonly value: string;
  readonly label: string;
  readonly hint: string;
  /** What the button says that does it so. */
  readonly action: string;
}

export interface Question {
  readonly title: string;
  readonly text: () => VNodeChild;
  /** What the button says that does it. */
  readonly action: string;
  readonly isDangerous?: boolean;
  /** Has to be typed before the button works. */
  readonly typed?: string;
  /** A text that may be given with it. */
  readonly field?: { readonly label: string; readonly hint: string };
  /** One of them is chosen, at first the first one. */
  readonly choices?: readonly Choice[];
  /** Does it, with the text of the field or the value of the choice; what it throws is shown, and the dialog stays. */
  readonly run: (text: string) => Promise<void>;
}

/** The question that is asked now; one at a time. */
const asked = shallowRef<Question>();
/** How many were wanted until now. */
let wanted = 0;

/** Asks before something is done. */
export function ask(question: Question): void {
  wanted += 1;
  asked.value = question;
}

/**
 * Asks what has to be read first. Who wants another question meanwhile, or leaves the screen, is not asked this one: it
 * would take the place of the other under his hand.
 *
 * @param prepare finds the question; undefined where there is nothing to ask
 */
export async function askAfter(prepare: () => Promise<Question | undefined>): Promise<void> {
  wanted += 1;
  const mine = wanted;
  const { pathname } = location;
  try {
    const question = await prepare();
    if (question && mine === wanted && pathname === location.pathname) ask(question);
  } catch (error) {
    say(`Nothing was changed: ${asApiError(error).message}`, 'bad');
  }
}

/** Shows what `ask` asks; stands once in the page. */
export const Questions = defineComponent(() => {
  const typed = shallowRef('');
  const error = shallowRef<ApiError>();
  const isRunning = shallowRef(false);

  // What was typed, or failed, is of the question before.
  const begin = () => {
    typed.value = '';
    error.value = undefined;
    isRunning.value = false;
  };
  watch(asked, begin, { flush: 'sync' });
  const close = () => {
    asked.value = undefined;
  };
  const run = async (event: Event) => {
    event.preventDefault();
    const question = asked.value;
    if (!question || isRunning.value) return;
    isRunning.value = true;
    error.value = undefined;
    try {
      await question.run(typed.value.trim() || (question.choices?.[0]?.value ?? ''));
      // It may have asked the next question.
      if (asked.value === question) close();
    } catch (failure) {
      // A question that was closed meanwhile has no place for it.
      if (asked.value === question) error.value = asApiError(failure);
      else say(`${question.title} It failed: ${asApiError(failure).message}`, 'bad');
    } finally {
      if (asked.value === question) isRunning.value = false;
    }
  };

  return () => {
    const question = asked.value;
    if (!question) return null;
    const chosen =
      question.choices?.find(({ value }) => value === typed.value) ?? question.choices?.[0];
    const isReady = question.typed === undefined || typed.value.trim() === question.typed;
    return (
      <Dialog title={question.title} close={close}>
        {() => (
          <form onSubmit={(event) => void run(event)}>
            <div class="text">{question.text()}</div>
            <Choices
              question={question}
              value={chosen?.value}
              change={(value: string) => {
                typed.value = value;
              }}
            />
            <Typed
              question={question}
              value={typed.value}
              change={(value: string) => {
                typed.value = value;
              }}
            />
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
                {isRunning.value ? 'Working…' : (chosen?.action ?? question.action)}
              </button>
            </div>
          </form>
        )}
      </Dialog>
    );
  };
});

interface ChoicesProps {
  readonly question: Question;
  readonly value: string | undefined;
  readonly change: (value: string) => void;
}

function Choices({ question: { title, choices }, value, change }: ChoicesProps) {
  if (!choices) return null;
  return (
    <fieldset class="choices">
      <legend class="unseen">{title}</legend>
      {choices.map((one) => (
        <label key={one.value}>
          <input
            type="radio"
            name="choice"
            checked={one.value === value}
            onChange={() => change(one.value)}
          />
          <span>
            <b>{one.label}</b>
            <span class="below">{one.hint}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

interface TypedProps {
  readonly question: Question;
  readonly value: string;
  readonly change: (value: string) => void;
}

/** What is typed into the dialog: the name that confirms, or the text that goes with it. */
function Typed({ question: { typed, field }, value, change }: TypedProps) {
  if (typed === undefined && !field) return null;
  return (
    <div class="field">
      <label for="dialog-text">
        {field ? field.label : ['Type ', <code>{typed}</code>, ' to confirm']}
      </label>
      <input
        id="dialog-text"
        value={value}
        placeholder={field?.hint}
        autocomplete="off"
        spellcheck={false}
        onInput={(event: Event) => change((event.target as HTMLInputElement).value)}
      />
    </div>
  );
}
