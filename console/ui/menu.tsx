/** What can be done to one thing, behind one button. */
import {
  DropdownMenuContent,
  DropdownMenuItem,
  DropdownMenuPortal,
  DropdownMenuRoot,
  DropdownMenuTrigger,
} from 'reka-ui';
import type { FunctionalComponent } from 'vue';
import { Icon } from './state.tsx';

export interface Action {
  readonly label: string;
  readonly run: () => void;
  readonly isDangerous?: boolean;
}

interface MenuProps {
  /** What the menu is of, for screen readers: `Actions of acme.test`. */
  label: string;
  actions: readonly Action[];
}

export const ActionMenu: FunctionalComponent<MenuProps> = ({ label, actions }, { slots }) =>
  actions.length > 0 && (
    <DropdownMenuRoot modal={false}>
      {() => [
        <DropdownMenuTrigger class={slots.default ? 'plain' : 'icon-only'} aria-label={label}>
          {() => slots.default?.() ?? <Icon name="dots" />}
        </DropdownMenuTrigger>,
        <DropdownMenuPortal>
          {() => (
            <DropdownMenuContent class="popup" align="end" sideOffset={4}>
              {() =>
                actions.map(({ label: text, run, isDangerous }) => (
                  <DropdownMenuItem
                    key={text}
                    class={{ dangerous: isDangerous }}
                    // After the menu has closed and given the focus back: the dialog returns it there, too.
                    onSelect={() => void setTimeout(run)}
                  >
                    {() => text}
                  </DropdownMenuItem>
                ))
              }
            </DropdownMenuContent>
          )}
        </DropdownMenuPortal>,
      ]}
    </DropdownMenuRoot>
  );
