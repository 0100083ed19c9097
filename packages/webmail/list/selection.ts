/** Which rows are chosen, and which one the keys act on. */
import { computed, shallowReactive, shallowRef, watch } from 'vue';
import type { Row } from './rows.ts';
import { list, listName } from './source.ts';

const chosen = shallowReactive(new Set<string>());
/** All of the mailbox, also what is not read from the copy yet. */
const isAll = shallowRef(false);
const activeKey = shallowRef<string>();
/** Where the active row was: when it goes, the one in its place becomes the active one. */
let activeIndex = 0;
/** A range begins there. */
let anchor: string | undefined;

const { rows } = list;
const indexOf = (key: string | undefined) => rows.value.findIndex((row) => row.key === key);

/** Of the row that the keys act on; -1 where there is none. */
const index = computed(() => {
  const at = indexOf(activeKey.value);
  return at >= 0 ? at : Math.min(activeIndex, rows.value.length - 1);
});
const active = computed<Row | undefined>(() => rows.value[index.value]);

export const selection = {
  chosen,
  isAll,
  index,
  active,
  /** What an action is for: the chosen rows, or the active one. */
  targets: computed<readonly Row[]>(() => {
    const some = rows.value.filter(({ key }) => chosen.has(key));
    return some.length === 0 && active.value ? [active.value] : some;
  }),
  activate(at: number): void {
    activeIndex = Math.max(0, Math.min(at, rows.value.length - 1));
    activeKey.value = rows.value[activeIndex]?.key;
  },
  toggle(key: string): void {
    isAll.value = false;
    if (!chosen.delete(key)) chosen.add(key);
    anchor = key;
  },
  /** All rows from the last one that was chosen to this one. */
  extend(key: string): void {
    const ends = [indexOf(anchor), indexOf(key)].toSorted((a, b) => a - b);
    const [from = -1, to = -1] = ends;
    if (from < 0) selection.toggle(key);
    else for (const row of rows.value.slice(from, to + 1)) chosen.add(row.key);
  },
  chooseRead(): void {
    for (const { key } of rows.value) chosen.add(key);
  },
  chooseAll(): void {
    selection.chooseRead();
    isAll.value = true;
  },
  clear(): void {
    chosen.clear();
    isAll.value = false;
  },
};

watch(listName, () => {
  selection.clear();
  activeKey.value = undefined;
  activeIndex = 0;
});

// The place is remembered as long as the row is there; rows that are gone are chosen no more.
watch(rows, (now) => {
  const at = indexOf(activeKey.value);
  if (at >= 0) activeIndex = at;
  else if (activeKey.value !== undefined) selection.activate(activeIndex);
  const keys = new Set(now.map(({ key }) => key));
  for (const key of [...chosen]) if (!keys.has(key)) chosen.delete(key);
});
