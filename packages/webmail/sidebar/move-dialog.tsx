// biome-ignore-all lint/a11y/useFocusableInteractive: the box of words has the focus (APG combobox)
// biome-ignore-all lint/a11y/useKeyWithClickEvents: the box of words has the focus and the keys (APG combobox)
/** Where to move the messages: type some letters of the mailbox, and press Enter (APG combobox with a list). */
import { computed, defineComponent, ref } from 'vue';
import { current } from '../state/accounts.ts';
import { commands, isMoveOpen } from '../state/commands.ts';
import { iconOf, sortMailboxes, titleOf } from '../state/describe.ts';
import { route } from '../state/route.ts';
import { Dialog } from '../ui/dialog.tsx';
import { Icon } from '../ui/icon.tsx';
import { sayFailure } from '../ui/toasts.tsx';

interface Place {
  readonly name: string;
  readonly title: string;
  readonly icon: Parameters<typeof Icon>[0]['name'];
  /** It is made first. */
  readonly isNew: boolean;
}

/** What is in them was written here. */
const NOT_FOR_MAIL = ['\\Drafts', '\\Sent'];

/** Those whose title begins with the words first. */
function matches(words: string): Place[] {
  const wanted = words.trim().toLowerCase();
  const places = sortMailboxes(current.value?.live.mailboxes ?? [])
    .filter(
      ({ name, specialUse }) =>
        name !== route.value.mailbox && !NOT_FOR_MAIL.includes(specialUse ?? ''),
    )
    .map((mailbox): Place => {
      const { name } = mailbox;
      return { name, title: titleOf(mailbox), icon: iconOf(mailbox), isNew: false };
    });
  const at = ({ title }: Place) => title.toLowerCase().indexOf(wanted);
  const found = places.filter((place) => at(place) >= 0).toSorted((a, b) => at(a) - at(b));
  const isKnown = places.some(({ title }) => title.toLowerCase() === wanted);
  if (wanted === '' || isKnown) return found;
  return [
    ...found,
    { name: words.trim(), title: `New folder ${words.trim()}`, icon: 'plus', isNew: true },
  ];
}

const close = () => {
  isMoveOpen.value = false;
};

async function choose(place: Place | undefined): Promise<void> {
  if (!place) return;
  close();
  try {
    if (place.isNew) await current.value?.client.createMailbox(place.name);
    commands.moveTo(place.name);
  } catch (error) {
    sayFailure('The folder could not be made', error);
  }
}

export const MoveDialog = defineComponent(() => {
  const words = ref('');
  const active = ref(0);
  const places = computed(() => matches(words.value));
  const type = (event: Event) => {
    words.value = (event.target as HTMLInputElement).value;
    active.value = 0;
  };
  const press = (event: KeyboardEvent) => {
    const { length } = places.value;
    if (event.key === 'ArrowDown') active.value = (active.value + 1) % length;
    else if (event.key === 'ArrowUp') active.value = (active.value - 1 + length) % length;
    else if (event.key === 'Enter') void choose(places.value[active.value]);
    else return;
    event.preventDefault();
  };
  return () => (
    <Dialog title="Move to" close={close}>
      <input
        class="move-words"
        role="combobox"
        aria-label="Mailbox"
        aria-expanded="true"
        aria-controls="places"
        aria-activedescendant={places.value.length > 0 ? `place-${active.value}` : undefined}
        aria-autocomplete="list"
        autocomplete="off"
        autofocus
        placeholder="Type a name"
        value={words.value}
        onInput={type}
        onKeydown={press}
      />
      <div id="places" class="places" role="listbox" aria-label="Mailboxes">
        {places.value.map((place, index) => (
          <div
            key={place.name}
            id={`place-${index}`}
            role="option"
            tabindex="-1"
            aria-selected={index === active.value}
            onClick={() => void choose(place)}
          >
            <Icon name={place.icon} /> {place.title}
          </div>
        ))}
      </div>
    </Dialog>
  );
});
