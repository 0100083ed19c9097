/** What Vue's types do not know: some attributes of HTML, and that a component may show nothing, a text or several elements. */
import type { VNodeChild } from 'vue';
import '@vue/runtime-dom';

declare module 'vue/jsx-runtime' {
  namespace JSX {
    type ElementType =
      | string
      | ((...given: never) => VNodeChild)
      | (new (
          ...given: never
        ) => unknown);
  }
}

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
