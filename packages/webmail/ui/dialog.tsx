/** A dialog that is there while it is rendered: the browser keeps the focus within, Escape, Back and a press beside it close it. */
import { computed, onBeforeUnmount, onMounted, ref, shallowRef, useId } from 'vue';
import { Tool } from './button.tsx';
import { component } from './component.ts';

interface DialogProps {
  readonly title: string;
  readonly close: () => void;
  /** Takes more of the window: for a source, say. */
  readonly isWide?: boolean;
}

const open = shallowRef<readonly HTMLDialogElement[]>([]);

/** Where something can be pressed now: all that is outside of the topmost dialog is inert. */
export const topLayer = computed(() => open.value.at(-1) ?? document.body);

export const Dialog = component<DialogProps>(['title', 'close', 'isWide'], (props, { slots }) => {
  const element = ref<HTMLDialogElement>();
  const id = useId();
  onMounted(() => {
    if (!element.value) return;
    element.value.showModal();
    open.value = [...open.value, element.value];
  });
  onBeforeUnmount(() => {
    open.value = open.value.filter((one) => one !== element.value);
    // The browser gives the focus back to where it was, which it does not do for an element that is removed while open.
    element.value?.close();
  });
  return () => (
    <dialog
      ref={element}
      class={['dialog', { wide: props.isWide }]}
      aria-labelledby={id}
      closedby="any"
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
});
