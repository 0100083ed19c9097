/** Which rows of a long list are drawn: those that are seen, and some on either side. All have one height. */
import { computed, onBeforeUnmount, onMounted, type Ref, ref, watch } from 'vue';

/** Rows above and below what is seen: a fast scroll shows no gap. */
const SPARE = 8;

interface VirtualOptions {
  readonly scroller: Ref<HTMLElement | undefined>;
  readonly rows: () => number;
  /** Of a row, in pixels. */
  readonly height: Ref<number>;
}

export function useVirtual({ scroller, rows, height }: VirtualOptions) {
  const top = ref(0);
  const seen = ref(800);
  const read = () => {
    top.value = scroller.value?.scrollTop ?? 0;
  };
  const observer = new ResizeObserver(([entry]) => {
    seen.value = entry?.contentRect.height ?? seen.value;
    read();
  });
  onMounted(() => scroller.value && observer.observe(scroller.value));
  onBeforeUnmount(() => observer.disconnect());
  const range = computed(() => {
    const first = Math.floor(top.value / height.value);
    const last = Math.ceil((top.value + seen.value) / height.value);
    return { from: Math.max(0, first - SPARE), to: Math.min(rows(), last + SPARE) };
  });
  /** Brings a row into view, as little as that needs. */
  const show = (index: number) => {
    const element = scroller.value;
    if (!element || index < 0) return;
    const start = index * height.value;
    if (start < element.scrollTop) element.scrollTop = start;
    else if (start + height.value > element.scrollTop + element.clientHeight) {
      element.scrollTop = start + height.value - element.clientHeight;
    }
  };
  // A list that became shorter scrolls by itself, without an event in some browsers.
  watch(rows, read, { flush: 'post' });
  return { range, read, show };
}
