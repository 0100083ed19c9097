/** Which rows of a long list are drawn: those that are seen, and some on either side. All have one height. */
import { computed, onBeforeUnmount, onMounted, type Ref, ref, watch } from 'vue';

/** Of a row, as the style sheet has it. */
export const ROW_PX = 76;
/** Rows above and below what is seen: a fast scroll shows no gap. */
const SPARE = 8;

export function useVirtual(scroller: Ref<HTMLElement | undefined>, rows: () => number) {
  const top = ref(0);
  const seen = ref(800);
  const read = () => {
    top.value = scroller.value?.scrollTop ?? 0;
    seen.value = scroller.value?.clientHeight ?? 0;
  };
  const observer = new ResizeObserver(read);
  onMounted(() => scroller.value && observer.observe(scroller.value));
  onBeforeUnmount(() => observer.disconnect());
  // A list that became shorter scrolls by itself, without an event in some browsers.
  watch(rows, read, { flush: 'post' });
  const range = computed(() => {
    const first = Math.floor(top.value / ROW_PX);
    const last = Math.ceil((top.value + seen.value) / ROW_PX);
    return { from: Math.max(0, first - SPARE), to: Math.min(rows(), last + SPARE) };
  });
  /** Brings a row into view, as little as that needs. */
  const show = (index: number) => {
    const { scrollTop = 0, clientHeight = 0 } = scroller.value ?? {};
    const start = index * ROW_PX;
    const to = Math.min(start, Math.max(scrollTop, start + ROW_PX - clientHeight));
    if (index >= 0) scroller.value?.scrollTo(0, to);
  };
  return { range, read, show };
}
