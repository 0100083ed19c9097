/**
 * The one box that finds things in a list. Its text stands in the address (`?q=`), so that a view can be kept and shared.
 *
 *     const qualifiers: readonly Qualifier[] = [{ name: 'is', hint: 'Its state', example: 'bounced', values: [...] }];
 *     const search = useSearch(qualifiers);              // search().terms, .words, .problem
 *     const list = loadList(() => toQuery(search()), ...);
 *     <SearchBox label="Messages" qualifiers={qualifiers} placeholder="Address, id, domain"
 *       chips={[['All', ''], ['Bounced', 'is:bounced']]}>{() => <SpanChoice />}</SearchBox>
 *
 * It searches 300 ms after the last key, or at Enter. `/` leads into it, `?` and the button show what it knows. Chips write
 * their text into it. The default slot stands beside it: on a phone behind a button. Links to a view of the list
 * are `{ path: '/queue', query: { q: 'to:acme.test' } }`.
 */
import { defineComponent, onBeforeUnmount, ref, watch } from 'vue';
import { type RouteLocationNormalizedLoaded, useRoute, useRouter } from 'vue-router';
import { isHelpOpen, qualifiers as shown, useKeys } from './keys.tsx';
import { parseSearch, type Qualifier, type Search } from './search.ts';
import { Icon } from './state.tsx';

const PAUSE_MS = 300;

const textOf = ({ query: { q } }: RouteLocationNormalizedLoaded) =>
  typeof q === 'string' ? q : '';

/** What the box says now, read from the address. */
export function useSearch(qualifiers: readonly Qualifier[]): () => Search {
  const route = useRoute();
  return () => parseSearch(textOf(route), qualifiers);
}

interface BoxProps {
  /** What is searched, for screen readers. */
  label: string;
  qualifiers: readonly Qualifier[];
  placeholder: string;
  chips?: readonly (readonly [label: string, text: string])[];
}

/** The text of the box and of the address, each of which follows the other. */
function useText() {
  const route = useRoute();
  const router = useRouter();
  const text = ref(textOf(route));
  let timer: ReturnType<typeof setTimeout> | undefined;
  onBeforeUnmount(() => clearTimeout(timer));
  watch(
    () => textOf(route),
    (now) => {
      // Else it would take back what was typed meanwhile.
      if (now !== text.value.trim()) text.value = now;
    },
  );
  /** A search that is complete is a step that Back returns to; one that is typed on is not. */
  const search = (isComplete: boolean) => {
    clearTimeout(timer);
    const q = text.value.trim();
    if (q === textOf(route)) return;
    const { q: _before, ...others } = route.query;
    const to = { query: q === '' ? others : { ...others, q } };
    void (isComplete ? router.push(to) : router.replace(to));
  };
  const type = (event: Event) => {
    text.value = (event.target as HTMLInputElement).value;
    clearTimeout(timer);
    timer = setTimeout(() => search(false), PAUSE_MS);
  };
  const write = (chip: string) => {
    text.value = chip;
    search(true);
  };
  return { text, search, type, write };
}

const openHelp = () => {
  isHelpOpen.value = true;
};

export const SearchBox = defineComponent(
  (props: BoxProps, { slots }) => {
    const { text, search, type, write } = useText();
    const input = ref<HTMLInputElement>();
    shown.value = props.qualifiers;
    onBeforeUnmount(() => {
      shown.value = [];
    });
    useKeys({
      '/': (event) => {
        event.preventDefault();
        // Not every browser gives the focus to what is selected.
        input.value?.focus();
        input.value?.select();
      },
    });
    const submit = (event: Event) => {
      event.preventDefault();
      search(true);
    };
    return () => {
      const { problem } = parseSearch(text.value, props.qualifiers);
      return (
        <search>
          <form class="search" aria-label={props.label} onSubmit={submit}>
            <div class="box">
              <Icon name="search" />
              <input
                ref={input}
                type="search"
                aria-label={`Search ${props.label.toLowerCase()}`}
                aria-describedby={problem && 'search-problem'}
                placeholder={props.placeholder}
                value={text.value}
                spellcheck={false}
                autocomplete="off"
                onInput={type}
                onKeydown={({ key }) => key === 'Escape' && input.value?.blur()}
              />
              <button
                type="button"
                class="icon-only"
                aria-label="What can be searched for"
                onClick={openHelp}
              >
                ?
              </button>
            </div>
            {slots.default && <Beside>{slots.default}</Beside>}
            {props.chips && <Chips chips={props.chips} text={text.value} write={write} />}
            {problem && (
              <p id="search-problem" class="problem" role="status">
                {problem} <kbd>?</kbd> shows what there is.
              </p>
            )}
          </form>
        </search>
      );
    };
  },
  { props: ['label', 'qualifiers', 'placeholder', 'chips'] },
);

/** What stands beside the box: on a phone it is opened by a button. */
const Beside = defineComponent((_props, { slots }) => {
  const isOpen = ref(false);
  const toggle = () => {
    isOpen.value = !isOpen.value;
  };
  return () => (
    <>
      <button
        type="button"
        class="plain filters-button"
        aria-expanded={isOpen.value}
        onClick={toggle}
      >
        Filters
      </button>
      <div class={['beside', { open: isOpen.value }]}>{slots.default?.()}</div>
    </>
  );
});

interface ChipsProps {
  readonly chips: NonNullable<BoxProps['chips']>;
  readonly text: string;
  readonly write: (text: string) => void;
}

function Chips({ chips, text, write }: ChipsProps) {
  return (
    <div class="chips">
      {chips.map(([label, chip]) => (
        <button
          key={label}
          type="button"
          class="chip"
          aria-pressed={text.trim() === chip}
          onClick={() => write(chip)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}
