/** The search box of the page, with what its operators are. */
import { defineComponent, ref, watch } from 'vue';
import { current } from '../state/accounts.ts';
import { go, goTo, route } from '../state/route.ts';
import { Icon } from '../ui/icon.tsx';

const ID = 'search';

export function focusSearch(): void {
  document.getElementById(ID)?.focus();
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

export const SearchBox = defineComponent(() => {
  const words = ref(route.value.query ?? '');
  const input = ref<HTMLInputElement>();
  const isOpen = ref(false);
  watch(
    () => route.value.query,
    (query) => {
      words.value = query ?? '';
    },
  );
  const search = (event: Event) => {
    event.preventDefault();
    const account = current.value;
    const query = words.value.trim();
    if (!account) return;
    isOpen.value = false;
    if (query) go({ address: account.address, mailbox: 'INBOX', query });
    else goTo(account.address, 'INBOX');
    document.querySelector<HTMLElement>('.list')?.focus();
  };
  const add = (operator: string) => {
    words.value = `${words.value.trimEnd()} ${operator}`.trimStart();
    input.value?.focus();
  };
  const left = ({ relatedTarget, currentTarget }: FocusEvent) => {
    if (!(currentTarget as Element).contains(relatedTarget as Node | null)) isOpen.value = false;
  };
  return () => (
    <search>
      <form
        class="search"
        onSubmit={search}
        onFocusout={left}
        onKeydown={(event: KeyboardEvent) => {
          if (event.key === 'Escape') isOpen.value = false;
        }}
      >
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
          value={words.value}
          onFocus={() => {
            isOpen.value = true;
          }}
          onInput={(event: Event) => {
            words.value = (event.target as HTMLInputElement).value;
          }}
        />
        {isOpen.value && (
          <ul class="operators" aria-label="What the search knows">
            {operators.map(([operator, meaning]) => (
              <li key={operator}>
                <button type="button" onClick={() => add(operator)}>
                  <code>{operator}</code> <span class="soft">{meaning}</span>
                </button>
              </li>
            ))}
          </ul>
        )}
      </form>
    </search>
  );
});
