/** A conversation, oldest first: the last message and the newest unread ones are unfolded, and read by that. */
import { computed, defineComponent, nextTick, ref, shallowReactive, watch } from 'vue';
import type { MailMessage } from '../../sdk/src/mail/client.ts';
import { Actions } from '../list/list-bar.tsx';
import { isUnread, keyOf } from '../list/rows.ts';
import { subjectOf } from '../reading/stranger-text.ts';
import { current } from '../state/accounts.ts';
import { markRead } from '../state/actions.ts';
import { commands } from '../state/commands.ts';
import { closeOpen, isNarrow, route } from '../state/route.ts';
import { Button, Tool } from '../ui/button.tsx';
import { Icon } from '../ui/icon.tsx';
import { Failure } from '../ui/loaded.tsx';
import { Card } from './card.tsx';
import { reading } from './opened.ts';

/** Unread messages that are unfolded at once. Each has a frame of its own: two hundred hold the page for seconds. */
const UNFOLDED_MAX = 10;

export const Thread = defineComponent(() => {
  /** By the user, or since they were unread when they came; what was too much then is false. */
  const unfolded = shallowReactive(new Map<string, boolean>());
  const heading = ref<HTMLElement>();
  const messages = computed(() => reading.opened.value?.messages ?? []);
  const isUnfolded = (message: MailMessage) =>
    unfolded.get(keyOf(message)) ?? message === messages.value.at(-1);
  watch(
    () => route.value.open?.id,
    () => unfolded.clear(),
    { flush: 'sync' },
  );
  watch(messages, (now, before) => {
    const came = now.filter((message) => isUnread(message) && !unfolded.has(keyOf(message)));
    for (const [at, message] of came.reverse().entries())
      unfolded.set(keyOf(message), at < UNFOLDED_MAX);
    // Not what the user marks as unread later.
    readUnfolded(came);
    if (now.length === 0 || before.length > 0) return;
    void nextTick(() => {
      const first = heading.value?.parentElement?.querySelector('.who[aria-expanded="true"]');
      if (first) keepInView(first);
      // On a phone the list is gone: the focus goes along.
      if (isNarrow.matches) heading.value?.focus({ preventScroll: true });
    });
  });
  const readUnfolded = (some: readonly MailMessage[]) =>
    void markRead({ messages: some.filter(isUnfolded) }, true, true);
  const toggle = (message: MailMessage) => {
    unfolded.set(keyOf(message), !isUnfolded(message));
    readUnfolded([message]);
  };
  return () => {
    const account = current.value;
    if (!route.value.open || !account) return <NothingOpen />;
    const [first] = messages.value;
    const { error } = reading.opened.value ?? {};
    return (
      <article class="thread" aria-labelledby="subject">
        <Bar />
        <h2 ref={heading} id="subject" tabindex="-1" dir="auto">
          {first ? subjectOf(first.envelope) : error ? '' : 'Loading…'}
        </h2>
        <Failure text={error && `This message cannot be read now: ${error}`} />
        <ol>
          {messages.value.map((message) => (
            <li key={keyOf(message)}>
              <Card
                account={account}
                message={message}
                isOpen={isUnfolded(message)}
                toggle={() => toggle(message)}
              />
            </li>
          ))}
        </ol>
        {first && <Answers />}
      </article>
    );
  };
});

/**
 * Scrolls to what is read first: of a long conversation the end. While the messages below it load, the pane is too short
 * for that; so it is done again until it has its place, or the reader does something.
 */
function keepInView(element: Element): void {
  const card = element.closest('li');
  const pane = element.closest('.reading-pane');
  const list = card?.parentElement;
  if (!card || !pane || !list) return;
  const over = new AbortController();
  const sizes = new ResizeObserver(() => {
    // The first one stands below the subject.
    if (card.previousElementSibling) card.scrollIntoView();
    else if (card.isConnected) pane.scrollTop = 0;
    const isAtEnd = pane.scrollTop + pane.clientHeight >= pane.scrollHeight - 1;
    if (!isAtEnd || !card.isConnected) end();
  });
  const end = () => {
    sizes.disconnect();
    over.abort();
  };
  sizes.observe(list);
  for (const type of ['wheel', 'touchstart', 'pointerdown', 'keydown']) {
    addEventListener(type, end, { signal: over.signal, passive: true });
  }
}

const NothingOpen = () => (
  <div class="nothing-open soft">
    <Icon name="mail" />
    <p>Choose a message to read it here.</p>
    <p class="small">
      <kbd>?</kbd> shows the keys.
    </p>
  </div>
);

const Bar = () => (
  <div class="thread-bar bar ruled" role="toolbar" aria-label="This conversation">
    <span class="back">
      <Tool icon="back" label="Back to the list" press={closeOpen} />
    </span>
    <Actions />
    <span class="steps">
      <Tool icon="up" label="Newer" shortcut="k" press={() => commands.step(-1)} />
      <Tool icon="chevron" label="Older" shortcut="j" press={() => commands.step(1)} />
    </span>
  </div>
);

const answers = [
  ['reply', 'Reply'],
  ['reply-all', 'Reply all'],
  ['forward', 'Forward'],
] as const;

const Answers = () => (
  <p class="answers bar wrap">
    {answers.map(([kind, label]) => (
      <Button
        key={kind}
        class="plain"
        icon={kind}
        label={label}
        press={() => commands.answer(kind)}
      />
    ))}
  </p>
);
