/** A dialog that is there while it is rendered: the browser keeps the focus within, Escape and Back close it. */
import { defineComponent, onMounted, ref } from 'vue';
import { Tool } from './icon.tsx';

interface DialogProps {
  readonly title: string;
  readonly close: () => void;
  /** Takes more of the window: for a source, say. */
  readonly isWide?: boolean;
}

let lastId = 0;

export const Dialog = defineComponent(
  (props: DialogProps, { slots }) => {
    const element = ref<HTMLDialogElement>();
    lastId += 1;
    const id = `dialog-${lastId}`;
    // The browser gives the focus back to where it was when the element closes, also by its removal.
    onMounted(() => element.value?.showModal());
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
          <header>
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
