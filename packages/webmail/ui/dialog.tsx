/** A dialog that is there while it is rendered: the browser keeps the focus within, Escape and Back close it. */
import { defineComponent, onBeforeUnmount, onMounted, ref, useId } from 'vue';
import { Tool } from './icon.tsx';

interface DialogProps {
  readonly title: string;
  readonly close: () => void;
  /** Takes more of the window: for a source, say. */
  readonly isWide?: boolean;
}

export const Dialog = defineComponent(
  (props: DialogProps, { slots }) => {
    const element = ref<HTMLDialogElement>();
    const id = useId();
    onMounted(() => element.value?.showModal());
    // The browser gives the focus back to where it was, which it does not do for an element that is removed while open.
    onBeforeUnmount(() => element.value?.close());
    return () => (
      <dialog
        ref={element}
        class={['dialog', { wide: props.isWide }]}
        aria-labelledby={id}
        onCancel={(event: Event) => {
          event.preventDefault();
          props.close();
        }}
      >
        <div class="inside">
          <header class="bar">
            <h2 id={id}>{props.title}</h2>
            <Tool icon="close" label="Close" press={props.close} />
          </header>
          {slots.default?.()}
        </div>
      </dialog>
    );
  },
  { props: ['title', 'close', 'isWide'] },
);
