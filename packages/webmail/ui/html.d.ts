/** Attributes of HTML that Vue's types do not know. */
import '@vue/runtime-dom';

declare module '@vue/runtime-dom' {
  interface HTMLAttributes {
    popover?: 'auto';
  }
  interface ButtonHTMLAttributes {
    popovertarget?: string;
  }
  interface DialogHTMLAttributes {
    closedby?: 'any';
  }
  interface InputHTMLAttributes {
    /** What it has at first: Vue writes `value` anew whenever it renders. */
    defaultValue?: string | undefined;
  }
}
