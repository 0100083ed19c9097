/** A button with a menu below it (APG menu button): arrows move in it, Escape and a press elsewhere close it. */
import { nextTick, ref, useId } from 'vue';
import { component } from './component.ts';
import { Icon, type IconName } from './icon.tsx';

export interface MenuItem {
  readonly label: string;
  readonly icon?: IconName;
  readonly isDangerous?: boolean;
  readonly run: () => void;
}

interface MenuProps {
  readonly label: string;
  /** Shown in place of three dots. */
  readonly icon?: IconName;
  /** Asked whenever the menu opens: they may depend on the time. */
  readonly items: () => readonly (MenuItem | undefined)[];
}

export const Menu = component<MenuProps>(['label', 'icon', 'items'], (props) => {
  const id = useId();
  const isOpen = ref(false);
  const list = ref<HTMLElement>();
  const button = ref<HTMLButtonElement>();
  const follow = async ({ newState }: ToggleEvent) => {
    isOpen.value = newState === 'open';
    await nextTick();
    if (!isOpen.value || !list.value || !button.value) return;
    place(list.value, button.value);
    list.value.querySelector('button')?.focus();
  };
  const choose = (item: MenuItem) => {
    list.value?.hidePopover();
    button.value?.focus();
    item.run();
  };
  const entry = (item: MenuItem) => (
    <button
      type="button"
      role="menuitem"
      tabindex="-1"
      class={{ bad: item.isDangerous }}
      onClick={() => choose(item)}
    >
      {item.icon && <Icon name={item.icon} />}
      {item.label}
    </button>
  );
  return () => (
    <>
      <button
        ref={button}
        type="button"
        class="tool"
        aria-label={props.label}
        title={props.label}
        popovertarget={id}
        aria-haspopup="menu"
        aria-expanded={isOpen.value}
      >
        <Icon name={props.icon ?? 'more'} />
      </button>
      <div
        ref={list}
        popover="auto"
        id={id}
        class="popup"
        role="menu"
        aria-label={props.label}
        onToggle={(event: Event) => void follow(event as ToggleEvent)}
        onKeydown={moveFocus}
      >
        {isOpen.value ? props.items().map((item) => item && entry(item)) : undefined}
      </div>
    </>
  );
});

/** Below the button, or above it where there is no room. */
function place(list: HTMLElement, button: HTMLElement): void {
  const { bottom, top, left, right } = button.getBoundingClientRect();
  const { offsetHeight: height, offsetWidth: width } = list;
  const y = bottom + height + 4 < innerHeight ? bottom + 4 : top - height - 4;
  const x = left + width + 8 < innerWidth ? left : right - width;
  list.style.top = `${Math.max(8, y)}px`;
  list.style.left = `${Math.max(8, x)}px`;
}

function moveFocus(event: KeyboardEvent): void {
  const list = event.currentTarget as HTMLElement;
  const all = [...list.querySelectorAll('button')];
  const at = all.indexOf(document.activeElement as HTMLButtonElement);
  const targets: Readonly<Record<string, number>> = {
    ArrowDown: (at + 1) % all.length,
    ArrowUp: (at - 1 + all.length) % all.length,
    Home: 0,
    End: all.length - 1,
  };
  if (event.key === 'Tab') list.hidePopover();
  const to = targets[event.key];
  if (to === undefined) return;
  event.preventDefault();
  all[to]?.focus();
}
