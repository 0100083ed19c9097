/** The search box of the page; what its operators are is shown as long as the focus is within. */
import { computed, ref } from 'vue';
import type { Account } from '../state/parts.ts';
import { closeOpen, go, isNarrow, route } from '../state/route.ts';
import { component } from '../ui/component.ts';
import { focusList } from '../ui/focus.ts';
import { Icon } from '../ui/icon.tsx';

const ID = 'search';

export function focusSearch(): void {
  // On a phone what is open lies over it.
  if (isNarrow.matches) closeOpen();
  const box = document.getElementById(ID) as HTMLInputElement | null;
  box?.focus();
  box?.select();
}

const operators = [
  ['from:', 'who wrote it'],
  ['to:', 'who gets it'],
  ['subject:', 'words of the subject'],
  ['in:', 'a mailbox'],
  ['is:unread', 'or read, starred, answered'],
  ['has:attachment', 'with files'],
  ['after:', 'a day: 2026-01-31'],
  ['before:', 'a day'],
] as const;

export const SearchBox = component<{ account: Account }>(['account'], (props) => {
  const input = ref<HTMLInputElement>();
  const query = computed(() => route.value.query ?? '');
  const search = (event: Event) => {
    event.preventDefault();
    const words = input.value?.value.trim();
    go({ address: props.account.address, mailbox: 'INBOX', ...(words && { query: words }) });
    focusList();
  };
  const add = (operator: string) => {
    if (!input.value) return;
    input.value.value = `${input.value.value.trimEnd()} ${operator}`.trimStart();
    input.value.focus();
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === 'Escape') focusList();
  };
  return () => (
    <search class="grow">
      <form class="search bar" onSubmit={search} onKeydown={press}>
        <Icon name="search" />
        <input
          ref={input}
          id={ID}
          type="search"
          aria-label="Search mail"
          placeholder="Search mail"
          autocomplete="off"
          spellcheck={false}
          enterkeyhint="search"
          maxlength="1000"
          value={query.value}
        />
        <ul class="operators" aria-label="What the search knows">
          {operators.map(([operator, meaning]) => (
            <li key={operator}>
              <button type="button" onClick={() => add(operator)}>
                <code>{operator}</code> <span class="soft">{meaning}</span>
              </button>
            </li>
          ))}
        </ul>
      </form>
    </search>
  );
});
