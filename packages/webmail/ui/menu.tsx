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
  const follow = async (event: Event) => {
    isOpen.value = (event as ToggleEvent).newState === 'open';
    await nextTick();
    if (isOpen.value) list.value?.querySelector('button')?.focus();
  };
  const choose = (item: MenuItem) => {
    // The browser gives the focus back to the button.
    list.value?.hidePopover();
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
        onToggle={(event: Event) => void follow(event)}
        onKeydown={moveFocus}
      >
        {isOpen.value ? props.items().map((item) => item && entry(item)) : undefined}
      </div>
    </>
  );
});

function moveFocus(event: KeyboardEvent): void {
  const list = event.currentTarget as HTMLElement;
  const all = [...list.querySelectorAll('button')];
  const at = all.indexOf(document.activeElement as HTMLButtonElement);
  const targets: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
  if (event.key === 'Tab') list.hidePopover();
  const to = targets[event.key];
  if (to === undefined) return;
  event.preventDefault();
  all.at(to % all.length)?.focus();
}
