/** The palette (Ctrl K): pages, a domain or account by the beginning of its name, a message by its id, and what can be done. */
import { computed, defineComponent, nextTick, ref } from 'vue';
import { RouterLink } from 'vue-router';
import { read } from './api/client.ts';
import { load } from './api/load.ts';
import type { AccountItem, DomainItem, Page } from './api/types.ts';
import { commandsHere, FEW, findCommands, type Hit } from './palette-actions.ts';
import { menu } from './router.ts';
import { Dialog } from './ui/dialogs.tsx';
import { useKeys } from './ui/keys.tsx';

/** So many characters begin a name; fewer match nearly everything. */
const LEAST = 2;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const isOpen = ref(false);
export const openPalette = () => {
  isOpen.value = true;
};

/** Names that begin with the text, and commands with what they can be done to. */
async function findThere(text: string, signal: AbortSignal) {
  if (text.length < LEAST) return { text, hits: [] };
  const names = /\s/.test(text) ? [] : findNames(text.toLowerCase(), signal);
  const [commands, others] = await Promise.all([findCommands(text, signal), names]);
  return { text, hits: [...commands, ...others] };
}

async function findNames(q: string, signal: AbortSignal): Promise<readonly Hit[]> {
  const query = { q, limit: FEW };
  const [domains, accounts] = await Promise.all([
    read<Page<DomainItem>>('/domains', query, signal),
    read<Page<AccountItem>>('/accounts', query, signal),
  ]);
  return [
    ...domains.items.map(
      ({ domain, user_id }): Hit => ({
        kind: 'Domain',
        text: domain,
        to: { path: `/domains/${domain}`, query: { user_id } },
      }),
    ),
    ...accounts.items.map(
      ({ id, address }): Hit => ({ kind: 'Account', text: address, to: `/accounts/${id}` }),
    ),
  ];
}

/** Pages, ids and commands, which need no question. */
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
    .map(({ path, title }): Hit => ({ kind: 'Page', text: title, to: path }));
  const ids: Hit[] = UUID.test(q) ? [{ kind: 'Message', text: q, to: `/messages/${q}` }] : [];
  return [...ids, ...pages, ...commandsHere(text)];
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
  const input = ref<HTMLInputElement>();
  const { data, error } = load(() => text.value.trim(), findThere);
  const hits = computed(() => {
    const said = text.value.trim();
    // What was found for another text is not what Enter means.
    return [...findHere(said), ...(data.value?.text === said ? data.value.hits : [])];
  });
  const close = () => {
    isOpen.value = false;
  };
  const type = (event: Event) => {
    text.value = (event.target as HTMLInputElement).value;
  };
  const doIt = ({ fill, run }: Hit) => {
    if (fill !== undefined) {
      text.value = fill;
      input.value?.focus();
      return;
    }
    close();
    // After the palette gave the focus back: the dialog returns it there, too.
    if (run) void nextTick().then(() => setTimeout(run));
  };
  const places = () => [...(list.value?.querySelectorAll<HTMLElement>('a, button') ?? [])];
  const openFirst = (event: Event) => {
    event.preventDefault();
    places()[0]?.click();
  };
  /** Up and down lead through what was found; above the first is the input. */
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const all: (HTMLElement | undefined)[] = [input.value, ...places()];
    const now = all.indexOf(document.activeElement as HTMLElement);
    all[Math.max(0, Math.min(all.length - 1, now + step))]?.focus();
  };
  return () => (
    <Dialog title="Go to, or do" close={close}>
      {() => (
        <form class="palette" onSubmit={openFirst} onKeydown={press}>
          <input
            ref={input}
            type="search"
            aria-label="Page, domain, account, id of a message, or action"
            placeholder="Page, domain, account, id of a message, or: suspend account …"
            value={text.value}
            spellcheck={false}
            autocomplete="off"
            onInput={type}
          />
          {error.value && <p role="alert">{error.value.message}</p>}
          <ul ref={list} aria-label="Found">
            {hits.value.map((hit) => (
              <li key={`${hit.kind} ${hit.text}`}>
                <Found hit={hit} doIt={doIt} />
              </li>
            ))}
          </ul>
          {hits.value.length === 0 && <p class="soft">Nothing begins like this.</p>}
        </form>
      )}
    </Dialog>
  );
});

function Found({ hit, doIt }: { hit: Hit; doIt: (hit: Hit) => void }) {
  const inner = [<span>{hit.text}</span>, <span class="soft">{hit.kind}</span>];
  if (hit.to !== undefined) {
    return (
      <RouterLink to={hit.to} onClick={() => doIt(hit)}>
        {() => inner}
      </RouterLink>
    );
  }
  return (
    <button type="button" onClick={() => doIt(hit)}>
      {inner}
    </button>
  );
}
