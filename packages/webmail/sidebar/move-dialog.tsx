/** Where to move the messages: type some letters of the mailbox, and press Enter. */
import { computed, defineComponent, ref } from 'vue';
import { current, mailboxes } from '../state/accounts.ts';
import type { Target } from '../state/actions.ts';
import { commands, target } from '../state/commands.ts';
import { iconOf, isForMail, sortMailboxes, titleOf } from '../state/describe.ts';
import { closeOverlay } from '../state/overlay.ts';
import { route } from '../state/route.ts';
import { Dialog } from '../ui/dialog.tsx';
import { Icon, type IconName } from '../ui/icon.tsx';
import { useOptions } from '../ui/options.tsx';
import { onText } from '../ui/sets.ts';
import { sayFailure } from '../ui/toasts.tsx';

interface Place {
  readonly name: string;
  readonly title: string;
  readonly icon: IconName;
  /** It is made first. */
  readonly isNew?: boolean;
}

/** Those whose title begins with the words first. */
function matches(words: string): Place[] {
  const wanted = words.trim().toLowerCase();
  const places = sortMailboxes([...mailboxes.value.values()])
    .filter((mailbox) => mailbox.name !== route.value.mailbox && isForMail(mailbox))
    .map((mailbox): Place => {
      return { name: mailbox.name, title: titleOf(mailbox), icon: iconOf(mailbox) };
    });
  const at = ({ title }: Place) => title.toLowerCase().indexOf(wanted);
  const found = places.filter((place) => at(place) >= 0).toSorted((a, b) => at(a) - at(b));
  const isKnown = places.some(({ title }) => title.toLowerCase() === wanted);
  if (wanted === '' || isKnown) return found;
  const name = words.trim();
  return [...found, { name, title: `New folder ${name}`, icon: 'plus', isNew: true }];
}

async function choose(what: Target, { name, isNew }: Place): Promise<void> {
  closeOverlay();
  try {
    if (isNew) await current.value?.client.createMailbox(name);
    commands.moveTo(name, what);
  } catch (error) {
    sayFailure('The folder could not be made', error);
  }
}

export const MoveDialog = defineComponent(() => {
  const words = ref('');
  const what = target.value;
  const options = useOptions({
    label: 'Mailboxes',
    items: computed(() => matches(words.value)),
    choose: (place) => void choose(what, place),
    show: ({ icon, title }) => [<Icon name={icon} />, title],
  });
  const type = onText((text) => {
    words.value = text;
    options.active.value = 0;
  });
  return () => (
    <Dialog title="Move to" close={closeOverlay}>
      <input
        {...options.box()}
        aria-label="Mailbox"
        autofocus
        placeholder="Type a name"
        onInput={type}
        onKeydown={(event: KeyboardEvent) => options.press(event)}
      />
      {options.list()}
    </Dialog>
  );
});
