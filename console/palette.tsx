/** The palette (Ctrl K): pages, a domain or account by the beginning of its name, a message by its id. */
import { computed, defineComponent, ref } from 'vue';
import { type RouteLocationRaw, RouterLink } from 'vue-router';
import { read } from './api/client.ts';
import { load } from './api/load.ts';
import type { AccountItem, DomainItem, Page } from './api/types.ts';
import { menu } from './router.ts';
import { Dialog } from './ui/dialogs.tsx';
import { useKeys } from './ui/keys.tsx';

const FEW = 5;
/** So many characters begin a name; fewer match nearly everything. */
const LEAST = 2;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

interface Hit {
  readonly kind: string;
  readonly text: string;
  readonly to: RouteLocationRaw;
}

const isOpen = ref(false);
export const openPalette = () => {
  isOpen.value = true;
};

/** Names that begin with the text. */
async function findNames(q: string, signal: AbortSignal): Promise<readonly Hit[]> {
  if (q.length < LEAST) return [];
  const query = { q: q.toLowerCase(), limit: FEW };
  const [domains, accounts] = await Promise.all([
    read<Page<DomainItem>>('/domains', query, signal),
    read<Page<AccountItem>>('/accounts', query, signal),
  ]);
  return [
    ...domains.items.map(({ domain, user_id }) => ({
      kind: 'Domain',
      text: domain,
      to: { path: `/domains/${domain}`, query: { user_id } },
    })),
    ...accounts.items.map(({ id, address }) => ({
      kind: 'Account',
      text: address,
      to: `/accounts/${id}`,
    })),
  ];
}

/** Pages and ids, which need no question. */
function findHere(text: string): readonly Hit[] {
  const q = text.toLowerCase();
  const pages = menu
    .flat()
    .filter(({ title }) =>
      title
        .toLowerCase()
        .split(' ')
        .some((word) => word.startsWith(q)),
    )
    .map(({ path, title }) => ({ kind: 'Page', text: title, to: path }));
  return UUID.test(q) ? [{ kind: 'Message', text: q, to: `/messages/${q}` }, ...pages] : pages;
}

/** Stands once in the page. */
export const Palette = defineComponent(() => {
  useKeys({
    'Control+k': (event) => {
      event.preventDefault();
      openPalette();
    },
  });
  return () => isOpen.value && <PaletteDialog />;
});

const PaletteDialog = defineComponent(() => {
  const text = ref('');
  const list = ref<HTMLElement>();
  const { data, error } = load(() => text.value.trim(), findNames);
  const hits = computed(() => [...findHere(text.value.trim()), ...(data.value ?? [])]);
  const close = () => {
    isOpen.value = false;
  };
  const type = (event: Event) => {
    text.value = (event.target as HTMLInputElement).value;
  };
  const links = () => [...(list.value?.querySelectorAll('a') ?? [])];
  const openFirst = (event: Event) => {
    event.preventDefault();
    links()[0]?.click();
  };
  /** Up and down lead through the links; above the first is the input. */
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const places: (HTMLElement | null)[] = [form.querySelector('input'), ...links()];
    const now = places.indexOf(document.activeElement as HTMLElement | null);
    places[Math.max(0, Math.min(places.length - 1, now + step))]?.focus();
  };
  return () => (
    <Dialog title="Go to" close={close}>
      {() => (
        <form class="palette" onSubmit={openFirst} onKeydown={press}>
          <input
            type="search"
            aria-label="Page, domain, account or id of a message"
            placeholder="Page, domain, account, id of a message"
            value={text.value}
            spellcheck={false}
            autocomplete="off"
            onInput={type}
          />
          {error.value && <p role="alert">{error.value.message}</p>}
          <ul ref={list} aria-label="Found">
            {hits.value.map(({ kind, text: name, to }) => (
              <li key={`${kind} ${name}`}>
                <RouterLink to={to} onClick={close}>
                  {() => [<span>{name}</span>, <span class="soft">{kind}</span>]}
                </RouterLink>
              </li>
            ))}
          </ul>
          {hits.value.length === 0 && <p class="soft">Nothing begins like this.</p>}
        </form>
      )}
    </Dialog>
  );
});
