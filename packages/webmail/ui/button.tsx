/** Buttons that do something when they are pressed: with words, or as an icon alone. */
import { Icon, type IconName } from './icon.tsx';

interface ButtonProps {
  /** How it looks: `main`, `plain` or `link`. Vue puts it on the element. */
  readonly class: string;
  readonly label: string;
  readonly icon?: IconName;
  readonly title?: string;
  readonly press: (event: MouseEvent) => void;
}

/** A button with words. */
export const Button = ({ label, icon, title, press }: ButtonProps) => (
  <button type="button" title={title} onClick={press}>
    {icon && <Icon name={icon} />}
    {label}
  </button>
);

interface ToolProps {
  /** Or a character in its place. */
  readonly icon?: IconName;
  readonly shown?: string;
  readonly label: string;
  /** The key that does the same. */
  readonly shortcut?: string;
  readonly disabled?: boolean;
  readonly pressed?: boolean;
  readonly press: (event: MouseEvent) => void;
}

/** A button that is an icon or a character alone. */
export const Tool = (props: ToolProps) => (
  <button
    type="button"
    class="tool"
    aria-label={props.label}
    aria-keyshortcuts={props.shortcut}
    aria-pressed={props.pressed}
    title={props.shortcut ? `${props.label} (${props.shortcut})` : props.label}
    disabled={props.disabled}
    onClick={props.press}
  >
    {props.icon ? <Icon name={props.icon} filled={props.pressed ?? false} /> : props.shown}
  </button>
);
