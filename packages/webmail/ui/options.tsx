// biome-ignore-all lint/a11y/useFocusableInteractive: the box of words has the focus (APG combobox)
/** The list below a box of words (APG combobox): the box keeps the focus, and names the option that Enter takes. */
import { type Ref, ref, useId, type VNodeChild } from 'vue';

type Keys = Readonly<Record<string, () => void>>;

interface OptionsProps<Item> {
  readonly label: string;
  readonly items: Readonly<Ref<readonly Item[]>>;
  readonly choose: (item: Item) => void;
  readonly show: (item: Item) => VNodeChild;
}

export function useOptions<Item>({ label, items, choose, show }: OptionsProps<Item>) {
  const id = useId();
  /** Place of the one that Enter takes; -1 for none. */
  const active = ref(0);
  const chosen = () => items.value[active.value];
  const move = (step: number) => {
    const { length } = items.value;
    const from = Math.max(active.value, step > 0 ? -1 : 0);
    if (length > 0) active.value = (from + step + length) % length;
  };
  const keys: Keys = {
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => {
      const item = chosen();
      if (item !== undefined) choose(item);
    },
  };
  return {
    active,
    chosen,
    /** Does what arrows and Enter do; keys of the box itself come before. */
    press(event: KeyboardEvent, ofBox: Keys = {}): void {
      const act = event.isComposing ? undefined : { ...keys, ...ofBox }[event.key];
      if (!act) return;
      event.preventDefault();
      event.stopPropagation();
      act();
    },
    /** Attributes of the box. */
    box: () => ({
      role: 'combobox',
      autocomplete: 'off',
      'aria-autocomplete': 'list' as const,
      'aria-expanded': items.value.length > 0,
      'aria-controls': id,
      'aria-activedescendant': chosen() && `${id}-${active.value}`,
    }),
    list: () => (
      <div
        id={id}
        class="options"
        role="listbox"
        aria-label={label}
        hidden={items.value.length === 0}
      >
        {items.value.map((item, at) => (
          <div
            key={at}
            id={`${id}-${at}`}
            class="bar"
            role="option"
            tabindex="-1"
            aria-selected={at === active.value}
            onMousedown={(event: MouseEvent) => {
              // The box keeps the focus.
              event.preventDefault();
              choose(item);
            }}
          >
            {show(item)}
          </div>
        ))}
      </div>
    ),
  };
}
