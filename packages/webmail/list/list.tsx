// biome-ignore-all lint/a11y/useAriaActivedescendantWithTabindex: it has a tabindex, in the spelling of Vue
// biome-ignore-all lint/a11y/useSemanticElements: rows of a list that is drawn in part lie where they belong, which those of a table cannot
// biome-ignore-all lint/a11y/useFocusableInteractive: the grid has the focus, and names its active row
/**
 * The list of a mailbox or of a search, as a treegrid (APG; its example is an inbox). It has the focus as a whole and
 * names its active row, so that the focus stays where it is when rows come and go.
 */
import { defineComponent, nextTick, ref, watch } from 'vue';
import { here, mailboxes, titleOfName } from '../state/accounts.ts';
import { commands } from '../state/commands.ts';
import { route } from '../state/route.ts';
import { ListRow, rowId } from './row.tsx';
import type { Row } from './rows.ts';
import { selection } from './selection.ts';
import { list, listName } from './source.ts';
import { ROW_PX, useVirtual } from './virtual.ts';

/** So many rows before the end of what was read, more is read. */
const AHEAD = 60;

export const List = defineComponent(() => {
  const grid = ref<HTMLElement>();
  const { rows, missing } = list;
  const { range, read, show } = useVirtual(grid, () => rows.value.length);
  watch(
    [selection.index, () => selection.active.value?.key],
    () => void nextTick(() => show(selection.index.value)),
  );
  // Also where what was read made no row more: it belongs to conversations that have theirs.
  watch([() => range.value.to, list.source], ([to]) => {
    if (to + AHEAD > rows.value.length) list.more();
  });
  watch(listName, () => grid.value?.scrollTo(0, 0));
  return () => (
    <div
      ref={grid}
      class="list"
      role="treegrid"
      tabindex={0}
      aria-label={labelOf()}
      aria-multiselectable="true"
      aria-rowcount={rows.value.length + missing.value}
      aria-activedescendant={selection.active.value && rowId(selection.active.value)}
      aria-busy={list.source.value.isLoading}
      onScroll={read}
      onKeydown={pressed}
    >
      <div
        class="rows"
        role="presentation"
        style={{ height: `${(rows.value.length + missing.value) * ROW_PX}px` }}
      >
        {drawn(range.value).map(([row, index]) => (
          <ListRow
            key={row.key}
            row={row}
            index={index}
            isActive={index === selection.index.value}
            isChosen={selection.isAll.value || selection.chosen.has(row.key)}
          />
        ))}
      </div>
      {rows.value.length === 0 && <Nothing />}
    </div>
  );
});

/** Rows in sight with their places; the active one as well, since the grid names it. */
function drawn({ from, to }: { from: number; to: number }): [Row, number][] {
  const seen = list.rows.value
    .slice(from, to)
    .map((row, offset): [Row, number] => [row, from + offset]);
  const at = selection.index.value;
  const active = selection.active.value;
  return active && (at < from || at >= to) ? [...seen, [active, at]] : seen;
}

function labelOf(): string {
  const { mailbox, query } = route.value;
  return query ? `Found for ${query}` : titleOfName(mailbox);
}

/** Keys of a treegrid; letters are those of the whole page. */
function pressed(event: KeyboardEvent): void {
  const { active, index } = selection;
  const row = active.value;
  const isControl = event.ctrlKey || event.metaKey;
  const page = Math.floor((event.currentTarget as HTMLElement).clientHeight / ROW_PX) - 1;
  const moves: Readonly<Record<string, number>> = {
    ArrowDown: index.value + 1,
    ArrowUp: index.value - 1,
    PageDown: index.value + page,
    PageUp: index.value - page,
    Home: 0,
    End: list.rows.value.length - 1,
  };
  const to = moves[event.key];
  if (to !== undefined && !isControl) {
    if (event.shiftKey && row) selection.extend(row.key);
    selection.activate(to);
    if (event.shiftKey && active.value) selection.extend(active.value.key);
  } else if (event.key === 'Enter') commands.open();
  else if (event.key === ' ' && row) selection.toggle(row.key);
  else if (event.key === 'ArrowRight' && row && !list.unfolded.has(row.key)) list.toggle(row.key);
  else if (event.key === 'ArrowLeft' && row && list.unfolded.has(row.key)) list.toggle(row.key);
  else if (event.key === 'a' && isControl) selection.chooseRead();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function whyEmpty(): [title: string, text: string] {
  const { isLoading, error } = list.source.value;
  if (error) return ['The search failed', error];
  if (isLoading) return ['Loading…', ''];
  const { mailbox, query } = route.value;
  if (!query && mailboxes.value.size > 0 && !here.value)
    return [`There is no folder ${mailbox}`, 'It was renamed or deleted.'];
  return query
    ? ['Nothing found', 'Try fewer words, or another spelling.']
    : ['No mail here', mailbox === 'INBOX' ? 'New mail appears by itself.' : ''];
}

const Nothing = () => {
  const [title, text] = whyEmpty();
  return (
    <div class="nothing" role="row">
      <div role="gridcell">
        <b>{title}</b>
        <p class="soft">{text}</p>
      </div>
    </div>
  );
};
