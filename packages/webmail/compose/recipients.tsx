/** A field of recipients (APG combobox): people that were written to before are suggested, a list may be pasted. */
import { onMounted, ref, useId } from 'vue';
import type { Correspondent } from '../../sdk/src/api-types.ts';
import type { MailClient } from '../../sdk/src/mail/client.ts';
import { component } from '../ui/component.ts';
import { Icon } from '../ui/icon.tsx';
import { useOptions } from '../ui/options.tsx';
import { onText, sets } from '../ui/sets.ts';
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

/** Those of them who are no recipients yet. */
function without(taken: readonly Correspondent[], people: readonly Correspondent[]) {
  const known = new Set(taken.map(({ address }) => address.toLowerCase()));
  return people.filter(({ address }) => !known.has(address.toLowerCase()));
}

/** What is typed, pasted and chosen, and what keys do with it. */
function useEntries(props: RecipientsProps) {
  const input = ref<HTMLInputElement>();
  const typed = ref('');
  const suggested = ref<readonly Correspondent[]>([]);
  const options = useOptions<Correspondent>({
    label: 'Suggestions',
    items: suggested,
    choose: (one) => add([one]),
    show: ({ name, address }) => [name && <b>{name} </b>, <span>{address}</span>],
  });
  const forget = sets(suggested, []);
  const add = (people: readonly Correspondent[]) => {
    const fresh = without(props.people, people);
    typed.value = '';
    forget();
    if (fresh.length > 0) props.onChange([...props.people, ...fresh]);
  };
  const suggest = async () => {
    const asked = typed.value.trim();
    if (asked === '') return forget();
    const found = await props.client.correspondents(asked, SUGGESTED_MAX).catch(() => []);
    if (asked !== typed.value.trim()) return;
    suggested.value = without(props.people, toCorrespondents(found));
    options.active.value = isAddress(asked) ? -1 : 0;
    if (suggested.value.length > 0) announce(`${suggested.value.length} suggestions`);
  };
  const commit = () => {
    const one = options.chosen();
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
  const keys = {
    Enter: commit,
    Escape: forget,
    Backspace: () => edit(props.people.length - 1),
  };
  const press = (event: KeyboardEvent) => {
    const { key } = event;
    // With Control the form sends: what is typed is a recipient, too.
    if (event.ctrlKey || event.metaKey) return key === 'Enter' ? leave() : undefined;
    // Escape closes the suggestions first, then the form; Backspace deletes what is typed first.
    if (key === 'Escape' && suggested.value.length === 0) return;
    if (key === 'Backspace' && (typed.value !== '' || props.people.length === 0)) return;
    options.press(event, keys);
  };
  const write = onText((text) => {
    typed.value = text;
    // A comma within quotes ends no address.
    if (/[,;]\s*$/.test(typed.value) && typed.value.split('"').length % 2 === 1) commit();
    else void suggest();
  });
  const paste = (event: ClipboardEvent) => {
    const people = parseAddresses(event.clipboardData?.getData('text/plain') ?? '');
    if (people.length < 2 && !isAddress(people[0]?.address ?? '')) return;
    event.preventDefault();
    add(people);
  };
  const leave = () => add(parseAddresses(typed.value));
  const on = { onInput: write, onKeydown: press, onPaste: paste, onBlur: leave };
  return { input, typed, options, edit, remove, on };
}

export const Recipients = component<RecipientsProps>(
  ['label', 'people', 'client', 'onChange', 'startsHere'],
  (props, { slots }) => {
    const id = useId();
    const { input, typed, options, edit, remove, on } = useEntries(props);
    onMounted(() => {
      if (props.startsHere) input.value?.focus();
    });
    return () => (
      <div class="recipients ruled">
        <label for={id}>{props.label}</label>
        <div class="people bar wrap grow">
          <ul aria-label={`${props.label}: recipients`}>
            {props.people.map((one, at) => (
              <Chip key={one.address} one={one} edit={() => edit(at)} remove={() => remove(at)} />
            ))}
          </ul>
          <input
            {...options.box()}
            {...on}
            ref={input}
            id={id}
            type="text"
            dir="auto"
            autocapitalize="off"
            spellcheck={false}
            inputmode="email"
            value={typed.value}
          />
        </div>
        {options.list()}
        {slots.default?.()}
      </div>
    );
  },
);

interface ChipProps {
  readonly one: Correspondent;
  readonly edit: () => void;
  readonly remove: () => void;
}

const Chip = ({ one, edit, remove }: ChipProps) => {
  const shown = one.name ?? one.address;
  const isBad = !isAddress(one.address);
  return (
    <li class={['chip pill bar', { bad: isBad }]} title={one.address}>
      <button type="button" class="name cut" aria-label={`Edit ${shown}`} onClick={edit}>
        {shown}
      </button>
      {isBad && <span class="unseen">is not an address</span>}
      <button type="button" class="remove" aria-label={`Remove ${shown}`} onClick={remove}>
        <Icon name="close" />
      </button>
    </li>
  );
};
