/**
 * A list of the API in all its states: loading, failed, empty, shown page by page, changing while it is looked at.
 *
 *     const list = loadList(input, fetchPage, ({ id }) => id, 15_000);
 *     <ListTable caption="Messages" list={list} columns={columns} empty={['No mail matches', 'Hint']}
 *       actions={(row) => [{ label: 'Retry', run: () => askToRetry(row) }]}
 *       bulk={({ keys, isAll, clear }) => [{ label: 'Drop', run: () => askToDrop(keys, isAll, clear) }]}
 *       sorted="-sent" />
 *
 * - The first column is the link; j and k move the focus from link to link, x chooses the row of the focus.
 * - `actions` is the one menu of each row. `bulk` gives rows boxes and a bar; `isAll` (where `canTakeAll`)
 *   means all that match the filters. Call `clear` once it is done.
 * - A column with `sort` is sorted by the server: the head writes `?sort=name` or `?sort=-name` into the address,
 *   which the screen sends on. `sorted` is the order without it.
 * - Live: see `loadList`. Rows do not move while the pointer or the focus is in them, some are chosen, a dialog or menu is
 *   open, or the top of the list is out of sight.
 */
import { computed, defineComponent, ref, shallowRef } from 'vue';
import { useRoute, useRouter } from 'vue-router';
import type { LoadedList } from '../api/load.ts';
import { density } from '../remembered.ts';
import { Empty, Failure } from './basics.tsx';
import { type Column, cellsOf, classOf, isPhone, Loading } from './data-table.tsx';
import { count, formatNumber } from './format.ts';
import { useKeys } from './keys.tsx';
import { type Action, ActionMenu } from './menu.tsx';

type Key = string | number;

export interface Chosen {
  /** Of the rows with a tick. */
  readonly keys: readonly Key[];
  /** All that match, in place of the keys. */
  readonly isAll: boolean;
  readonly clear: () => void;
}

export interface ListProps<Row> {
  /** What the rows are, for screen readers. */
  caption: string;
  list: LoadedList<Row>;
  columns: readonly Column<Row>[];
  /** What is said where there are no rows: a title and what to do. */
  empty: readonly [title: string, hint: string];
  actions?: (row: Row) => readonly Action[];
  /** What a row is called by screen readers; its key when left out. */
  nameOf?: (row: Row) => string;
  bulk?: (chosen: Chosen) => readonly Action[];
  /** Whether `bulk` can take all that match, also what is not loaded. */
  canTakeAll?: boolean;
  sorted?: string;
}

export const ListTable = defineComponent(
  <Row,>(props: ListProps<Row>) => {
    const table = ref<HTMLTableElement>();
    const choice = useChoice(props);
    const rowsOf = () => [...(table.value?.tBodies[0]?.rows ?? [])];
    const focused = () => rowsOf().findIndex((row) => row.contains(document.activeElement));
    let last = -1;
    const go = (step: number) => {
      const rows = rowsOf();
      const from = focused() < 0 ? last : focused();
      last = Math.max(0, Math.min(rows.length - 1, from + step));
      const row = rows[last];
      (row?.querySelector('a') ?? row?.querySelector<HTMLElement>('button, input'))?.focus();
      rows[last]?.scrollIntoView({ block: 'nearest' });
    };
    useKeys({
      j: () => go(1),
      k: () => go(last < 0 && focused() < 0 ? 1 : -1),
      r: () => void props.list.reload(),
      x: () => choice.toggle(focused()),
      X: () => choice.toggleTo(focused()),
      Escape: () => choice.clear(),
      Enter: ({ target }) => {
        const row = rowsOf()[focused()];
        // A link and a button open by themselves.
        if (!(target as Element).closest('a, button')) row?.querySelector('a')?.click();
      },
    });
    props.list.isHeld = () =>
      choice.count.value > 0 ||
      document.querySelector('[role="dialog"], [role="menu"]') !== null ||
      (table.value !== undefined &&
        (table.value.getBoundingClientRect().top < 0 ||
          table.value.tBodies[0]?.matches(':hover, :focus-within') === true));

    return () => {
      const { list, empty, caption } = props;
      const rows = list.data.value;
      const isShown = rows !== undefined && rows.length > 0;
      return (
        <div class="list" aria-busy={list.isLoading.value}>
          <Failure
            error={list.error.value}
            since={rows && list.at.value}
            retry={() => void list.reload()}
          />
          {rows === undefined && !list.error.value && <Loading />}
          {rows?.length === 0 && <Empty title={empty[0]}>{() => empty[1]}</Empty>}
          <News list={list} />
          {isShown && isPhone.value && <Order {...props} />}
          {isShown && (
            <div class="scroller">
              <table ref={table} class={['data', density.value, { phone: isPhone.value }]}>
                <caption class="unseen">{caption}</caption>
                {(!isPhone.value || props.bulk) && <Head {...props} choice={choice} />}
                <tbody>
                  {rows.map((row, index) => (
                    <ListRow
                      key={list.keyOf(row)}
                      {...props}
                      row={row}
                      index={index}
                      choice={choice}
                    />
                  ))}
                </tbody>
              </table>
            </div>
          )}
          {isShown && <Foot list={list} />}
          {props.bulk && choice.count.value > 0 && <BulkBar {...props} choice={choice} />}
        </div>
      );
    };
  },
  {
    props: [
      'caption',
      'list',
      'columns',
      'empty',
      'actions',
      'nameOf',
      'bulk',
      'canTakeAll',
      'sorted',
    ],
  },
);

/** Which rows have a tick. */
function useChoice<Row>({ list, bulk }: ListProps<Row>) {
  const picked = shallowRef<ReadonlySet<Key>>(new Set());
  const isAll = ref(false);
  const keys = computed(() => (list.data.value ?? []).map(list.keyOf));
  // Without those that have gone.
  const chosen = computed(() => keys.value.filter((key) => picked.value.has(key)));
  let anchor = -1;
  const set = (wanted: Iterable<Key>) => {
    isAll.value = false;
    picked.value = new Set(wanted);
  };
  const toggle = (index: number) => {
    const key = keys.value[index];
    if (!bulk || key === undefined) return;
    anchor = index;
    set(new Set(chosen.value).symmetricDifference(new Set([key])));
  };
  return {
    chosen,
    isAll,
    count: computed(() => chosen.value.length),
    toggle,
    /** Chooses all rows from the one of before to this one. */
    toggleTo: (index: number) => {
      if (!bulk || index < 0) return;
      const [from, to] = [Math.min(index, Math.max(0, anchor)), Math.max(index, anchor)];
      set([...chosen.value, ...keys.value.slice(from, to + 1)]);
    },
    /** All rows that are loaded, or none. */
    togglePage: () => set(chosen.value.length === keys.value.length ? [] : keys.value),
    clear: () => set([]),
  };
}

type Choice = ReturnType<typeof useChoice>;

function Head<Row>({
  columns,
  bulk,
  actions,
  sorted,
  list,
  choice,
}: ListProps<Row> & { choice: Choice }) {
  const all = list.data.value?.length ?? 0;
  return (
    <thead>
      <tr>
        {bulk && (
          <th scope="col" class="box">
            <input
              type="checkbox"
              aria-label="Choose all rows"
              checked={choice.count.value === all}
              indeterminate={choice.count.value > 0 && choice.count.value < all}
              onChange={choice.togglePage}
            />
          </th>
        )}
        {isPhone.value ? (
          <th scope="col">All</th>
        ) : (
          columns.map((column) => <HeadCell key={column.head} column={column} sorted={sorted} />)
        )}
        {actions && (
          <th scope="col">
            <span class="unseen">Actions</span>
          </th>
        )}
      </tr>
    </thead>
  );
}

/** Numbers begin with the greatest. */
function HeadCell<Row>({ column, sorted }: { column: Column<Row>; sorted: string | undefined }) {
  const route = useRoute();
  const router = useRouter();
  const { head, sort, isNumber } = column;
  if (!sort) {
    return (
      <th scope="col" class={classOf(column)}>
        {head}
      </th>
    );
  }
  const now = typeof route.query.sort === 'string' ? route.query.sort : sorted;
  const direction = now === sort ? 'ascending' : now === `-${sort}` ? 'descending' : 'none';
  const isDown = direction === 'none' ? isNumber : direction === 'ascending';
  const choose = () =>
    void router.push({ query: { ...route.query, sort: isDown ? `-${sort}` : sort } });
  return (
    <th scope="col" class={classOf(column)} aria-sort={direction}>
      <button type="button" class="sort" onClick={choose}>
        {head}
        <span aria-hidden="true">{{ ascending: '↑', descending: '↓', none: '' }[direction]}</span>
      </button>
    </th>
  );
}

/** On a phone, where columns have no heads: in which order the rows are. */
function Order<Row>({ columns, sorted = '', caption }: ListProps<Row>) {
  const route = useRoute();
  const router = useRouter();
  const orders = columns.flatMap(({ head, sort, isNumber }) => {
    if (!sort) return [];
    const both = [
      [`-${sort}`, `${head} ↓`],
      [sort, `${head} ↑`],
    ] as const;
    return isNumber ? both : both.toReversed();
  });
  if (orders.length === 0) return null;
  const choose = (event: Event) => {
    const sort = (event.target as HTMLSelectElement).value;
    void router.push({ query: { ...route.query, sort } });
  };
  return (
    <p class="order">
      <select
        aria-label={`Order of ${caption.toLowerCase()}`}
        value={typeof route.query.sort === 'string' ? route.query.sort : sorted}
        onChange={choose}
      >
        {orders.map(([sort, label]) => (
          <option key={sort} value={sort}>
            {label}
          </option>
        ))}
      </select>
    </p>
  );
}

interface RowProps<Row> extends ListProps<Row> {
  readonly row: Row;
  readonly index: number;
  readonly choice: Choice;
}

function ListRow<Row>({ row, index, choice, ...table }: RowProps<Row>) {
  const { columns, list, actions, bulk } = table;
  const key = list.keyOf(row);
  const name = table.nameOf?.(row) ?? key;
  const isChosen = bulk !== undefined && choice.chosen.value.includes(key);
  const toggle = (event: MouseEvent) => {
    if (event.shiftKey) choice.toggleTo(index);
    else choice.toggle(index);
  };
  return (
    <tr class={{ chosen: isChosen }}>
      {bulk && (
        <td class="box">
          <input
            type="checkbox"
            aria-label={`Choose ${name}`}
            checked={isChosen}
            onClick={toggle}
          />
        </td>
      )}
      {cellsOf(columns, row)}
      {actions && (
        <td class="menu-cell">
          <ActionMenu label={`Actions of ${name}`} actions={actions(row)} />
        </td>
      )}
    </tr>
  );
}

/** What waits to be shown; it floats, so that no row moves. */
function News<Row>({ list }: { list: LoadedList<Row> }) {
  const amount = list.waiting.value;
  return (
    <div class="news" role="status">
      {amount === undefined ? null : (
        <button type="button" class="main" onClick={list.showWaiting}>
          {amount > 0 ? `${formatNumber(amount)} new` : 'Show the changes'}
        </button>
      )}
    </div>
  );
}

function Foot<Row>({ list }: { list: LoadedList<Row> }) {
  const shown = list.data.value?.length ?? 0;
  const total = list.total.value;
  if (!list.hasMore.value) return null;
  return (
    <p class="foot">
      <span class="soft">
        {formatNumber(shown)}
        {total !== undefined && ` of ${formatNumber(total)}`} are shown
      </span>
      <button type="button" class="plain" onClick={() => void list.more()}>
        Show more
      </button>
    </p>
  );
}

function BulkBar<Row>({ list, bulk, canTakeAll, choice }: ListProps<Row> & { choice: Choice }) {
  const { chosen, isAll, clear } = choice;
  const amount = chosen.value.length;
  const total = list.total.value;
  const isPage = amount === list.data.value?.length && list.hasMore.value;
  const actions = bulk?.({ keys: chosen.value, isAll: isAll.value, clear }) ?? [];
  const all = total === undefined ? 'all that match' : `all ${formatNumber(total)} that match`;
  const chooseAll = () => {
    isAll.value = true;
  };
  return (
    <section class="bulk" aria-label="Chosen rows">
      <b role="status">{isAll.value ? `${all} are chosen` : count(amount, 'row')}</b>
      {canTakeAll && isPage && !isAll.value && (
        <button type="button" class="plain" onClick={chooseAll}>
          Select {all}
        </button>
      )}
      {actions.map(({ label, run, isDangerous }) => (
        <button key={label} type="button" class={isDangerous ? 'danger' : 'plain'} onClick={run}>
          {label}
        </button>
      ))}
      <button type="button" class="plain" onClick={clear}>
        Clear
      </button>
    </section>
  );
}
