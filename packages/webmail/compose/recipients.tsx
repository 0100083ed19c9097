/** A field of recipients (APG combobox): people that were written to before are suggested, a list may be pasted. */
import { defineComponent, type FunctionalComponent, onMounted, type Ref, ref, useId } from 'vue';
import type { Correspondent } from '../../sdk/src/api-types.ts';
import type { MailClient } from '../../sdk/src/mail/client.ts';
import { Icon } from '../ui/icon.tsx';
import { announce } from '../ui/toasts.tsx';
import { isAddress, parseAddresses, toCorrespondents, writeAddresses } from './addresses.ts';

interface RecipientsProps {
  readonly label: string;
  readonly people: readonly Correspondent[];
  readonly client: MailClient;
  readonly onChange: (people: Correspondent[]) => void;
  /** The focus is here when the form opens. */
  readonly startsHere?: boolean;
}

const SUGGESTED_MAX = 6;

/** People whom the copy knows, for what is typed. */
function useSuggestions(props: RecipientsProps, typed: Ref<string>) {
  const suggested = ref<Correspondent[]>([]);
  /** Place of the one that Enter takes; -1 for none. */
  const chosen = ref(-1);
  const forget = () => {
    suggested.value = [];
    chosen.value = -1;
  };
  const suggest = async () => {
    const asked = typed.value.trim();
    if (asked === '') return forget();
    const found = await props.client.correspondents(asked, SUGGESTED_MAX).catch(() => []);
    if (asked !== typed.value.trim()) return;
    const taken = new Set(props.people.map(({ address }) => address.toLowerCase()));
    const people = toCorrespondents(found);
    suggested.value = people.filter((one) => !taken.has(one.address.toLowerCase()));
    chosen.value = suggested.value.length > 0 && !isAddress(asked) ? 0 : -1;
    if (suggested.value.length > 0) announce(`${suggested.value.length} suggestions`);
  };
  const move = (step: number) => {
    const count = suggested.value.length;
    if (count > 0)
      chosen.value = (Math.max(chosen.value, step > 0 ? -1 : 0) + step + count) % count;
  };
  return { suggested, chosen, forget, suggest, move };
}

interface ChipProps {
  readonly one: Correspondent;
  readonly edit: () => void;
  readonly remove: () => void;
}

const Chip: FunctionalComponent<ChipProps> = ({ one, edit, remove }) => {
  const shown = one.name ?? one.address;
  const isBad = !isAddress(one.address);
  return (
    <li class={['chip', { bad: isBad }]} title={one.address}>
      <button type="button" class="name" aria-label={`Edit ${shown}`} onClick={edit}>
        {shown}
      </button>
      {isBad && <span class="unseen">is not an address</span>}
      <button type="button" class="remove" aria-label={`Remove ${shown}`} onClick={remove}>
        <Icon name="close" />
      </button>
    </li>
  );
};
Chip.props = ['one', 'edit', 'remove'];

/** What is typed, pasted and chosen, and what keys do with it. */
function useEntries(props: RecipientsProps) {
  const input = ref<HTMLInputElement>();
  const typed = ref('');
  const list = useSuggestions(props, typed);
  const add = (people: readonly Correspondent[]) => {
    const known = new Set(props.people.map(({ address }) => address.toLowerCase()));
    const fresh = people.filter(({ address }) => !known.has(address.toLowerCase()));
    typed.value = '';
    list.forget();
    if (fresh.length > 0) props.onChange([...props.people, ...fresh]);
  };
  const commit = () => {
    const one = list.suggested.value[list.chosen.value];
    add(one ? [one] : parseAddresses(typed.value));
  };
  const remove = (at: number) => props.onChange(props.people.filter((_, one) => one !== at));
  const edit = (at: number) => {
    const one = props.people[at];
    if (!one) return;
    remove(at);
    typed.value = writeAddresses([one]);
    input.value?.focus();
  };
  const keys: Record<string, () => unknown> = {
    ArrowDown: () => list.move(1),
    ArrowUp: () => list.move(-1),
    Enter: commit,
    Escape: list.forget,
    Backspace: () => edit(props.people.length - 1),
  };
  const press = (event: KeyboardEvent) => {
    const { key } = event;
    if (event.isComposing || event.ctrlKey || event.metaKey) return;
    // Escape closes the suggestions first, then the form; Backspace deletes what is typed first.
    if (key === 'Escape' && list.suggested.value.length === 0) return;
    if (key === 'Backspace' && (typed.value !== '' || props.people.length === 0)) return;
    const act = keys[key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  const write = (event: Event) => {
    typed.value = (event.target as HTMLInputElement).value;
    // A comma within quotes ends no address.
    if (/[,;]\s*$/.test(typed.value) && typed.value.split('"').length % 2 === 1) commit();
    else void list.suggest();
  };
  const paste = (event: ClipboardEvent) => {
    const people = parseAddresses(event.clipboardData?.getData('text/plain') ?? '');
    if (people.length < 2 && !isAddress(people[0]?.address ?? '')) return;
    event.preventDefault();
    add(people);
  };
  const leave = () => add(parseAddresses(typed.value));
  return { input, typed, list, add, edit, remove, on: { press, write, paste, leave } };
}

export const Recipients = defineComponent(
  (props: RecipientsProps, { slots }) => {
    const id = useId();
    const { input, typed, list, add, edit, remove, on } = useEntries(props);
    const { suggested, chosen } = list;
    onMounted(() => {
      if (props.startsHere) input.value?.focus();
    });
    return () => (
      <div class="recipients">
        <label for={id}>{props.label}</label>
        <div class="people">
          <ul aria-label={`${props.label}: recipients`}>
            {props.people.map((one, at) => (
              <Chip key={one.address} one={one} edit={() => edit(at)} remove={() => remove(at)} />
            ))}
          </ul>
          <input
            ref={input}
            id={id}
            type="text"
            role="combobox"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            inputmode="email"
            aria-autocomplete="list"
            aria-expanded={suggested.value.length > 0}
            aria-controls={`${id}-list`}
            aria-activedescendant={chosen.value >= 0 ? `${id}-${chosen.value}` : undefined}
            value={typed.value}
            onInput={on.write}
            onKeydown={on.press}
            onPaste={on.paste}
            onBlur={on.leave}
          />
          <Suggestions id={id} people={suggested.value} chosen={chosen.value} add={add} />
        </div>
        {slots.default?.()}
      </div>
    );
  },
  { props: ['label', 'people', 'client', 'onChange', 'startsHere'] },
);

interface SuggestionsProps {
  readonly id: string;
  readonly people: readonly Correspondent[];
  readonly chosen: number;
  readonly add: (people: readonly Correspondent[]) => void;
}

const Suggestions: FunctionalComponent<SuggestionsProps> = ({ id, people, chosen, add }) => (
  <div
    id={`${id}-list`}
    class="suggestions"
    role="listbox"
    aria-label="Suggestions"
    hidden={people.length === 0}
  >
    {people.map((one, at) => (
      // biome-ignore lint/a11y/useFocusableInteractive: Vue's name of it is tabindex.
      <div
        key={one.address}
        id={`${id}-${at}`}
        role="option"
        tabindex="-1"
        aria-selected={at === chosen}
        onMousedown={(event: MouseEvent) => {
          // The field keeps the focus.
          event.preventDefault();
          add([one]);
        }}
      >
        {one.name && <b>{one.name}</b>} <span>{one.address}</span>
      </div>
    ))}
  </div>
);
Suggestions.props = ['id', 'people', 'chosen', 'add'];
